package workpulling

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// Handler does one job. nil confirms it; Reject and RetryAfter say what else is meant; every other error and a panic is a failed attempt.
// ctx ends when the attempt is past its timeout or the worker gives up its drain. A handler that goes on then keeps its slot until it
// returns, and what it returns counts for nothing: the job is with another worker by then.
type Handler func(ctx context.Context, d Delivery) error

// Flow is one stream of jobs to pull from.
type Flow struct {
	// Name is the flow's; it may be empty where Producer is set, or where there is one flow only.
	Name string
	// Address is host:port of the flow's producer, looked up for every connection.
	Address string
	// ServerName is the name in the producer's certificate, where it is another than the Identity says.
	ServerName string
	// Producer is that of the same process, in place of an address.
	Producer *Producer
}

// WorkerOptions configure a Worker. The zero value is good for a program that takes the place of the runtime in a worker's pod, where the
// operator has mounted what it needs.
type WorkerOptions struct {
	// Flows are what to pull from, with distinct names. Without any, they are those of the document that the operator mounts into the pod,
	// with its window, concurrency and handler timeout for what is zero here.
	Flows []Flow
	// Identity is needed for flows with an address.
	Identity Identity
	// Concurrency is the most handlers at a time, of all flows together (1).
	Concurrency int
	// Window is the most jobs that the worker holds of each flow, begun or not (50; 1…10,000).
	Window int
	// HandlerTimeout ends an attempt (5 min; below zero for never).
	HandlerTimeout time.Duration
	// DrainTimeout is how long Run goes on, at most, when its context has ended (20 s).
	DrainTimeout time.Duration
	// Logger hears of connections and panics; the zero value is silent.
	Logger logr.Logger
	// Observe, where it is set, is called after each attempt, on the goroutine of its handler: the place for metrics.
	Observe func(Attempt)
}

// Attempt is one call of a handler that has ended.
type Attempt struct {
	Flow, ID string
	// Number counts the tries of the job, from 1.
	Number int
	// Outcome is confirmed, nacked, rejected or delayed: fit for a label.
	Outcome string
	Took    time.Duration
}

// Worker pulls jobs and calls a handler for each.
type Worker struct {
	options  WorkerOptions
	handler  Handler
	endpoint *endpoint.Worker
}

// RunWorker is NewWorker and Run in one.
func RunWorker(ctx context.Context, handler Handler, options WorkerOptions) error {
	worker, err := NewWorker(handler, options)
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

// NewWorker returns a worker that connects with Run. It fails where options contradict each other or name no identity.
func NewWorker(handler Handler, options WorkerOptions) (*Worker, error) {
	if handler == nil {
		return nil, errors.New("workpulling: a worker needs a handler")
	}
	if err := options.complete(runtimeconfig.Place{}); err != nil {
		return nil, err
	}
	w := &Worker{options: options, handler: handler}
	sources, err := w.sources()
	if err != nil {
		return nil, err
	}
	w.endpoint = endpoint.NewWorker(endpoint.WorkerOptions{
		Config:      options.config(),
		Incarnation: protocol.Incarnation{PodUID: options.Identity.Name, BootNonce: endpoint.CryptoRandom{}.ID()},
		Flows:       sources,
		Log:         options.Logger,
	})
	w.endpoint.SetAppReady(true)
	return w, nil
}

// complete fills in what the pod says, and defaults.
func (o *WorkerOptions) complete(place runtimeconfig.Place) error {
	if len(o.Flows) == 0 {
		if err := o.fromPod(place); err != nil {
			return err
		}
	}
	remote := false
	for _, flow := range o.Flows {
		remote = remote || flow.Producer == nil
	}
	if remote {
		identity, err := o.Identity.orPod(place)
		if err != nil {
			return err
		}
		o.Identity = identity
	}
	if o.Identity.Name == "" {
		o.Identity.Name = madeUpName()
	}
	if o.DrainTimeout <= 0 {
		o.DrainTimeout = 20 * time.Second
	}
	if o.Logger.GetSink() == nil {
		o.Logger = logr.Discard()
	}
	return nil
}

func (o *WorkerOptions) config() delivery.ConsumerConfig {
	config := delivery.DefaultConsumerConfig()
	if o.Concurrency > 0 {
		config.Concurrency = o.Concurrency
	}
	if o.Window > 0 {
		config.Window = o.Window
	}
	if o.HandlerTimeout != 0 {
		config.HandlerTimeout = max(o.HandlerTimeout, 0)
	}
	return config
}

// sources are the flows with a way to each.
func (w *Worker) sources() ([]endpoint.Source, error) {
	var sources []endpoint.Source
	names := map[string]bool{}
	for _, flow := range w.options.Flows {
		if flow.Name == "" && flow.Producer != nil {
			flow.Name = flow.Producer.options.Flow
		}
		if names[flow.Name] {
			return nil, fmt.Errorf("workpulling: the flow %q is there twice", flow.Name)
		}
		names[flow.Name] = true
		source := endpoint.Source{Flow: flow.Name, Handler: w.handlerOf(flow.Name)}
		switch {
		case flow.Producer != nil:
			name := w.options.Identity.Name
			source.Dial = flow.Producer.endpoint.Direct(delivery.Worker{PodUID: name, PodName: name})
		case flow.Address != "":
			peer, err := w.options.Identity.peer(flow)
			if err != nil {
				return nil, err
			}
			source.Dial = endpoint.DialPeer(func() transport.Peer { return peer })
		default:
			return nil, fmt.Errorf("workpulling: the flow %q has neither an address nor a producer", flow.Name)
		}
		sources = append(sources, source)
	}
	return sources, nil
}

// Run pulls jobs until ctx ends. Then it asks for no more, gives back what has not begun, and lets running handlers finish for up to
// DrainTimeout; after that their contexts end too, it waits for them to return, and returns ErrNotDrained.
func (w *Worker) Run(ctx context.Context) error {
	lifetime, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.endpoint.Run(lifetime) // it returns nil
	}()
	<-ctx.Done()
	w.endpoint.StartDrain()
	timer := time.NewTimer(w.options.DrainTimeout)
	defer timer.Stop()
	var err error
	select {
	case <-w.endpoint.Drained():
	case <-timer.C:
		status := w.endpoint.Status()
		err = fmt.Errorf("%w: %d running, %d unsettled", ErrNotDrained, status.Running, status.Unsettled)
	}
	stop()
	<-ended
	return err
}

// WorkerStats is what a worker has on its hands and has done, of all flows together.
type WorkerStats struct {
	// Registered says that every flow's producer has taken the worker in and speaks to it.
	Registered bool
	// Running counts handlers in progress, Held the jobs that wait for a slot.
	Running, Held int
	// Started, Confirmed and Failed count attempts since the start.
	Started, Confirmed, Failed uint64
	// Refusal is why a producer does not take the worker in, for people; "" where none refuses.
	Refusal string
}

// Stats returns a snapshot.
func (w *Worker) Stats() WorkerStats {
	s := w.endpoint.Status()
	return WorkerStats{
		Registered: s.Registered, Running: s.Running, Held: s.Buffered,
		Started: s.Started, Confirmed: s.Confirmed, Failed: s.Nacked + s.Abandoned, Refusal: s.LastRefusal,
	}
}

// handlerOf is the handler for one flow's deliveries.
func (w *Worker) handlerOf(flow string) endpoint.Handler {
	return endpoint.HandlerFunc(func(ctx context.Context, d protocol.Delivery) endpoint.Result {
		if w.options.Observe == nil {
			return w.handle(ctx, flow, d)
		}
		began := time.Now() //nolint:forbidigo // a measurement, no decision
		result := w.handle(ctx, flow, d)
		w.options.Observe(Attempt{
			Flow: flow, ID: d.Job.MessageID, Number: d.Attempt, Outcome: result.Outcome.String(),
			Took: time.Since(began), //nolint:forbidigo // a measurement, no decision
		})
		return result
	})
}

func (w *Worker) handle(ctx context.Context, flow string, d protocol.Delivery) (result endpoint.Result) {
	defer func() {
		if cause := recover(); cause != nil {
			w.options.Logger.Error(fmt.Errorf("handler panicked: %v", cause), "The attempt counts as failed",
				"flow", flow, "id", d.Job.MessageID, "stack", string(debug.Stack()))
			result = endpoint.Result{Outcome: protocol.Nacked, Reason: "handler panicked"}
		}
	}()
	return resultOf(w.handler(ctx, deliveryOf(flow, d)))
}
