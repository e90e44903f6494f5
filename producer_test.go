package workpulling_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/workpulling/workpulling"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

func TestVerdicts(t *testing.T) {
	producer, _ := newProducer(t, quick(workpulling.Memory()))
	submit := func(j workpulling.Job) (workpulling.Verdict, error) {
		receipt, err := producer.Submit(t.Context(), j)
		return receipt.Verdict, err
	}
	for _, want := range []workpulling.Verdict{workpulling.Stored, workpulling.AlreadyStored} {
		if got, err := submit(job("a")); got != want || err != nil {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	other := job("a")
	other.Payload = []byte("other")
	if _, err := submit(other); !errors.Is(err, workpulling.ErrConflict) {
		t.Errorf("another body: %v", err)
	}
	newWorker(t, succeed, workpulling.WorkerOptions{Flows: []workpulling.Flow{{Producer: producer}}})
	waitFor(t, "confirmed", func() bool { return stats(t, producer).Confirmed == 1 })
	if got, err := submit(job("a")); got != workpulling.AlreadyConfirmed || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []workpulling.Job{{ID: "b"}, {Payload: []byte("x")}, {ID: "b", Payload: make([]byte, 1<<20+1)}} {
		if _, err := submit(bad); !errors.Is(err, workpulling.ErrInvalid) {
			t.Errorf("%q with %d bytes: %v", bad.ID, len(bad.Payload), err)
		}
	}
	if err := producer.WaitConfirmed(t.Context(), workpulling.Receipt{ID: "never", Sequence: 99}); !errors.Is(err, workpulling.ErrUnknown) {
		t.Errorf("waiting for what was never stored: %v", err)
	}
}

// A full backlog refuses within CreditWait and says when to try again; when there is room, it takes jobs again.
func TestBackPressure(t *testing.T) {
	options := quick(workpulling.Memory())
	options.BacklogJobs, options.CreditWait = 10, 20*time.Millisecond
	producer, _ := newProducer(t, options)
	var ids []string
	for i := range 200 {
		ids = append(ids, fmt.Sprint("job-", i))
	}
	var stored, full int
	for _, id := range ids {
		switch _, err := producer.Submit(t.Context(), job(id)); {
		case err == nil:
			stored++
		case isFull(err):
			full++
		case errors.Is(err, workpulling.ErrUnavailable): // not loaded yet
		default:
			t.Fatal(err)
		}
		if full == 3 {
			break
		}
	}
	if stored < 10 || full != 3 {
		t.Fatalf("%d stored, %d refused", stored, full)
	}
	newWorker(t, succeed, workpulling.WorkerOptions{Flows: []workpulling.Flow{{Producer: producer}}})
	store(t, producer, ids...)
	waitFor(t, "all confirmed", func() bool { return stats(t, producer).Confirmed == 200 })
}

// What was stored by one life of a producer is done by the next.
func TestLocalQueueOutlivesItsProducer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "queue")
	first, stop := newProducer(t, quick(workpulling.Local(dir)))
	store(t, first, "a", "b", "c")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	second, _ := newProducer(t, quick(workpulling.Local(dir)))
	counts := newTally()
	newWorker(t, counts.around(succeed), workpulling.WorkerOptions{Flows: []workpulling.Flow{{Producer: second}}})
	waitFor(t, "all done", func() bool { return counts.done() == 3 })
}

// A waiter and a submitter of a producer that ends hear of it.
func TestProducerThatEndsAnswers(t *testing.T) {
	producer, stop := newProducer(t, quick(workpulling.Memory()))
	receipt, err := producer.Submit(t.Context(), job("a"))
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() { waited <- producer.WaitConfirmed(t.Context(), receipt) }()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; !errors.Is(err, workpulling.ErrUnavailable) {
		t.Errorf("the waiter heard %v", err)
	}
	if _, err := producer.Submit(t.Context(), job("b")); !errors.Is(err, workpulling.ErrUnavailable) {
		t.Errorf("the submitter heard %v", err)
	}
}

// Submissions end with their context, also where nobody runs the producer.
func TestSubmitEndsWithItsContext(t *testing.T) {
	options := quick(workpulling.Memory())
	options.MaxPending = 1
	producer, err := workpulling.NewProducer(options)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second one finds no room
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if _, err := producer.Submit(ctx, job("a")); !errors.Is(err, workpulling.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("submitted with %v", err)
		}
		cancel()
	}
	start(t, producer)
	store(t, producer, "b")
}

// With ManualAcknowledge the queue keeps an ID until the submitter has written down that it is stored.
func TestManualAcknowledge(t *testing.T) {
	options := quick(workpulling.Memory())
	options.ManualAcknowledge, options.MaxPending = true, 2
	producer, _ := newProducer(t, options)
	first, err := producer.Submit(t.Context(), job("a"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := producer.Submit(t.Context(), job("b"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := producer.Submit(ctx, job("c")); err == nil {
		t.Error("a third one was stored while two are not acknowledged")
	}
	first.Acknowledge()
	second.Acknowledge()
	store(t, manual{producer}, "c", "d", "e")
}

// manual acknowledges what it stores.
type manual struct{ *workpulling.Producer }

func (m manual) SubmitBatch(ctx context.Context, jobs ...workpulling.Job) []workpulling.Result {
	var results []workpulling.Result
	for _, j := range jobs {
		receipt, err := m.Submit(ctx, j)
		if err == nil {
			receipt.Acknowledge()
		}
		results = append(results, workpulling.Result{Receipt: receipt, Err: err})
	}
	return results
}

// A listener without an identity is no listener.
func TestNoIdentityNoListener(t *testing.T) {
	options := quick(workpulling.Memory())
	options.Listen = "127.0.0.1:0"
	if _, err := workpulling.NewProducer(options); !errors.Is(err, workpulling.ErrNoIdentity) {
		t.Errorf("got %v", err)
	}
	if _, err := workpulling.Dial(workpulling.Flow{Address: "127.0.0.1:1"}, workpulling.ClientOptions{}); !errors.Is(err, workpulling.ErrNoIdentity) {
		t.Errorf("a client: %v", err)
	}
}

// Whoever does not know the secret is kept out, worker or client.
func TestStrangersStayOutside(t *testing.T) {
	dir, foreign := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "other")
	options := quick(workpulling.Memory())
	options.Listen, options.SharedSecret = "127.0.0.1:0", dir
	producer, _ := newProducer(t, options)
	options.Flow, options.SharedSecret = "other", foreign
	newProducer(t, options)
	stranger := workpulling.SharedSecret(dir, "stranger")
	stranger.Token = workpulling.SharedSecret(foreign, "stranger").Token
	worker, _ := newWorker(t, succeed, workpulling.WorkerOptions{
		Flows: []workpulling.Flow{{Name: "test", Address: producer.Address()}}, Identity: stranger,
	})
	waitFor(t, "the worker is refused", func() bool { return strings.Contains(worker.Stats().Refusal, "not the secret") })
	client, err := workpulling.Dial(workpulling.Flow{Address: producer.Address()},
		workpulling.ClientOptions{Identity: stranger, CreditWait: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	start(t, client)
	if _, err := client.Submit(t.Context(), job("a")); !errors.Is(err, workpulling.ErrUnavailable) {
		t.Errorf("the client heard %v", err)
	}
	if s := stats(t, producer); s.Workers != 0 || s.Accepted != 0 {
		t.Errorf("%d workers, %d jobs", s.Workers, s.Accepted)
	}
}

// A client and a worker over connections that break again and again: every job is stored once and done once.
func TestBrokenConnections(t *testing.T) {
	const jobs, rounds = 1200, 6
	dir := filepath.Join(t.TempDir(), "run")
	options := quick(workpulling.Memory())
	options.Listen, options.SharedSecret = "127.0.0.1:0", dir
	producer, _ := newProducer(t, options)
	proxy := transporttest.NewProxy(t, producer.Address())
	flow := workpulling.Flow{Name: "test", Address: proxy.Address()}
	counts := newTally()
	newWorker(t, counts.around(succeed), workpulling.WorkerOptions{
		Flows: []workpulling.Flow{flow}, Identity: workpulling.SharedSecret(dir, "w"), Concurrency: 4,
	})
	var confirmed atomic.Int64
	client, err := workpulling.Dial(flow, workpulling.ClientOptions{
		Identity: workpulling.SharedSecret(dir, "app"), OnConfirmed: func(string, int64) { confirmed.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := start(t, client)
	var all sync.WaitGroup
	for round := range rounds {
		var ids []string
		for i := range jobs / rounds {
			ids = append(ids, fmt.Sprintf("job-%d-%d", round, i))
		}
		all.Go(func() { store(t, client, ids...) })
		waitFor(t, "some of a round", func() bool { return counts.done() > round*jobs/rounds })
		proxy.Cut()
	}
	all.Wait()
	waitFor(t, "all confirmed", func() bool { return stats(t, producer).Confirmed == jobs })
	if s := stats(t, producer); s.Accepted != jobs || counts.done() != jobs || confirmed.Load() == 0 {
		t.Errorf("%d stored, %d done, %d notices", s.Accepted, counts.done(), confirmed.Load())
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := client.Submit(t.Context(), job("late")); !errors.Is(err, workpulling.ErrUnavailable) {
		t.Errorf("after the end: %v", err)
	}
}

// A second producer of one queue ends the first, which says so. Whether it finds out by a write of its own about the job that it had
// stored or by the next one is up to chance.
func TestFencedProducerSaysSo(t *testing.T) {
	shared, err := workpulling.Memory()(t.Context(), "test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shared.Close() })
	options := quick(keepOpen(shared))
	first, err := workpulling.NewProducer(options)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- first.Run(t.Context()) }()
	store(t, first, "a")
	second, _ := newProducer(t, options)
	store(t, second, "b")
	_, _ = first.Submit(t.Context(), job("c"))
	var failed *workpulling.FailedError
	err = <-ended
	if !errors.As(err, &failed) || failed.Stage != "Store" && failed.Stage != "Accept" || !errors.Is(err, queue.ErrFenced) {
		t.Errorf("the first ended with %v", err)
	}
}
