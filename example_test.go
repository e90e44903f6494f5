package workpulling_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/workpulling/workpulling"
)

// A producer and a worker in one process. With Local(dir) in place of Memory() jobs outlive the process.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	producer, err := workpulling.NewProducer(workpulling.ProducerOptions{Flow: "invoices", Queue: workpulling.Memory()})
	if err != nil {
		log.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = producer.Run(ctx) })
	running.Go(func() {
		_ = workpulling.RunWorker(ctx, func(_ context.Context, d workpulling.Delivery) error {
			fmt.Printf("%s of %s: %s\n", d.ID, d.Flow, d.Payload)
			return nil
		}, workpulling.WorkerOptions{Flows: []workpulling.Flow{{Producer: producer}}})
	})

	receipt, err := producer.Submit(ctx, workpulling.Job{ID: "invoice-17", Payload: []byte("42.00 EUR")})
	if err != nil {
		log.Fatal(err)
	}
	if err := producer.WaitConfirmed(ctx, receipt); err != nil {
		log.Fatal(err)
	}
	fmt.Println(receipt.Verdict, "and confirmed")

	stop()
	running.Wait()
	// Output:
	// invoice-17 of invoices: 42.00 EUR
	// stored and confirmed
}

// A producer that listens, a worker that connects to it, and a client that submits: as they would be in three processes, which share the
// directory of the secret.
func Example_processes() {
	ctx, stop := context.WithCancel(context.Background())
	dir, err := os.MkdirTemp("", "workpulling-example-")
	if err != nil {
		log.Fatal(err)
	}
	secret := filepath.Join(dir, "run")
	var running sync.WaitGroup

	producer, err := workpulling.NewProducer(workpulling.ProducerOptions{
		Flow: "invoices", Queue: workpulling.Local(filepath.Join(dir, "queue")), Listen: "127.0.0.1:0", SharedSecret: secret,
	})
	if err != nil {
		log.Fatal(err)
	}
	running.Go(func() { _ = producer.Run(ctx) })

	flow := workpulling.Flow{Name: "invoices", Address: producer.Address()}
	done := make(chan string)
	running.Go(func() {
		_ = workpulling.RunWorker(ctx, func(_ context.Context, d workpulling.Delivery) error {
			done <- d.ID
			return nil
		}, workpulling.WorkerOptions{Flows: []workpulling.Flow{flow}, Identity: workpulling.SharedSecret(secret, "worker-1")})
	})

	client, err := workpulling.Dial(flow, workpulling.ClientOptions{Identity: workpulling.SharedSecret(secret, "shop")})
	if err != nil {
		log.Fatal(err)
	}
	running.Go(func() { _ = client.Run(ctx) })
	receipt, err := client.Submit(ctx, workpulling.Job{ID: "invoice-17", Payload: []byte("42.00 EUR")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(receipt.ID, "is", receipt.Verdict)
	fmt.Println(<-done, "is done")

	stop()
	running.Wait()
	_ = os.RemoveAll(dir)
	// Output:
	// invoice-17 is stored
	// invoice-17 is done
}

// What a handler returns decides what becomes of its job.
func ExampleHandler() {
	errNoSuchCustomer, errMailServerBusy := errors.New("no such customer"), errors.New("the mail server is busy")
	send := func(context.Context, workpulling.Delivery) error { return errMailServerBusy }

	handler := func(ctx context.Context, d workpulling.Delivery) error {
		switch err := send(ctx, d); {
		case errors.Is(err, errNoSuchCustomer):
			return workpulling.Reject(err) // no repeat helps: to the dead letters
		case errors.Is(err, errMailServerBusy):
			return workpulling.RetryAfter(30*time.Second, err) // later; costs no attempt
		default:
			return err // nil confirms, anything else is a failed attempt
		}
	}
	fmt.Println(handler(context.Background(), workpulling.Delivery{}))
	// Output: the mail server is busy
}

// Many submissions under way at once, answered in any order.
func ExampleProducer_SubmitAsync() {
	ctx, stop := context.WithCancel(context.Background())
	producer, err := workpulling.NewProducer(workpulling.ProducerOptions{Queue: workpulling.Memory()})
	if err != nil {
		log.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = producer.Run(ctx) })

	var pending []*workpulling.Pending
	for i := range 1000 {
		p, err := producer.SubmitAsync(ctx, workpulling.Job{ID: fmt.Sprint("job-", i), Payload: []byte("x")})
		if err != nil {
			log.Fatal(err)
		}
		pending = append(pending, p)
	}
	stored := 0
	for _, p := range pending {
		if _, err := p.Wait(ctx); err == nil {
			stored++
		}
	}
	fmt.Println(stored, "stored")

	stop()
	running.Wait()
	// Output: 1000 stored
}

// A full flow says when to try again; what was refused was not stored.
func ExampleBackPressureError() {
	submit := func(ctx context.Context, to *workpulling.Producer, job workpulling.Job) (workpulling.Receipt, error) {
		for {
			receipt, err := to.Submit(ctx, job)
			wait := 100 * time.Millisecond
			if full, ok := errors.AsType[*workpulling.BackPressureError](err); ok {
				wait = full.RetryAfter
			} else if !errors.Is(err, workpulling.ErrUnavailable) {
				return receipt, err
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return receipt, ctx.Err()
			}
		}
	}

	ctx, stop := context.WithCancel(context.Background())
	producer, err := workpulling.NewProducer(workpulling.ProducerOptions{
		Queue: workpulling.Memory(), BacklogJobs: 1, CreditWait: time.Millisecond,
	})
	if err != nil {
		log.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = producer.Run(ctx) })
	if _, err := submit(ctx, producer, workpulling.Job{ID: "a", Payload: []byte("x")}); err != nil {
		log.Fatal(err)
	}
	_, err = producer.Submit(ctx, workpulling.Job{ID: "b", Payload: []byte("x")}) // nobody works, and the backlog is full
	fmt.Println(err)

	stop()
	running.Wait()
	// Output: workpulling: the flow is full, retry after 1s
}

// A job with the attributes of a CloudEvent.
func ExampleJob_Attribute() {
	job := workpulling.Job{
		ID:      "shop|17",
		Headers: map[string]string{"ce-type": "invoice.created", "ce-source": "shop", "content-type": "application/json"},
		Payload: []byte(`{"amount": 42}`),
	}
	fmt.Println(job.Attribute("type"), job.Attribute("source"), job.ContentType())
	// Output: invoice.created shop application/json
}

// An outbox: a receipt is acknowledged only when the submitter has written down that the job is stored. What is unmarked after a crash is
// submitted again, under the same ID.
func ExampleReceipt_Acknowledge() {
	ctx, stop := context.WithCancel(context.Background())
	producer, err := workpulling.NewProducer(workpulling.ProducerOptions{Queue: workpulling.Memory(), ManualAcknowledge: true})
	if err != nil {
		log.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = producer.Run(ctx) })

	unmarked := map[string][]byte{"order-1": []byte("book")} // rows of the application's own database
	for id, body := range unmarked {
		receipt, err := producer.Submit(ctx, workpulling.Job{ID: id, Payload: body})
		if err != nil {
			continue // it stays unmarked
		}
		delete(unmarked, id) // mark the row, durably
		receipt.Acknowledge()
		fmt.Println(id, "is", receipt.Verdict)
	}

	stop()
	running.Wait()
	// Output: order-1 is stored
}
