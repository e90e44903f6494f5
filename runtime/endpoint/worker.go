package endpoint

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// Handler processes deliveries. Handle is called on its own goroutine, at most Concurrency at a time, never twice at once for
// one MessageID. ctx ends when the attempt is abandoned, then with the cause ErrAbandoned, or when the worker stops; a panic is a nack.
type Handler interface {
	Handle(ctx context.Context, d protocol.Delivery) Result
}

// HandlerFunc makes a function a Handler.
type HandlerFunc func(ctx context.Context, d protocol.Delivery) Result

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, d protocol.Delivery) Result { return f(ctx, d) }

// Result is how a handler ended: protocol.Confirmed, Nacked, Rejected, Delayed, or HandedBack when the app could not be
// reached at all. Anything else counts as Nacked.
type Result struct {
	Outcome protocol.Outcome
	// Reason is a short text for people; never a payload.
	Reason string
	// RetryAfter is the handler's wish with Delayed.
	RetryAfter time.Duration
}

// Stream is a worker's connection to a producer, such as *transport.WorkerStream. Recv and Send are used by one goroutine each;
// Close unblocks both.
type Stream interface {
	// Send writes messages in order, and keeps none.
	Send(...protocol.FromWorker) error
	Recv() (protocol.ToWorker, error)
	Close()
}

// Source is one flow that a worker pulls from. All fields are required, but the name where there is one flow only.
type Source struct {
	Flow string
	// Dial opens one stream to the flow's producer; ctx bounds the stream's life. It has to fail within seconds where nobody answers.
	Dial func(ctx context.Context) (Stream, error)
	// Handler takes the flow's deliveries. Whatever the flow, Concurrency bounds all handlers of the worker together, and no two run
	// at once for one MessageID.
	Handler Handler
}

// WorkerOptions configure a Worker. Config, Incarnation and Flows are required.
type WorkerOptions struct {
	Config      delivery.ConsumerConfig
	Incarnation protocol.Incarnation
	// Flows are at least one, with distinct names.
	Flows []Source
	Log   logr.Logger
	// Random and Clock default to the system's.
	Random delivery.Random
	Clock  clock.Clock
	// Running is where handlers in progress are remembered (nowhere), and Left what an earlier process of this pod left there.
	Running RunningSet
	Left    []LeftRun
	// ReconnectMin and ReconnectMax bound the jittered wait between attempts to connect (100 ms, 1 s).
	ReconnectMin, ReconnectMax time.Duration
}

// DialPeer makes a Dial of a peer; peer is asked for every attempt, so that a changed address is followed. A producer that stands by
// says where the active one is, and the next attempt goes there.
func DialPeer(peer func() transport.Peer) func(context.Context) (Stream, error) {
	route := new(transport.Route)
	return func(ctx context.Context) (Stream, error) {
		to := peer()
		to.Route = route
		stream, err := to.DialWorker(ctx)
		if err != nil {
			return nil, err
		}
		return stream, nil
	}
}

// Worker hosts one ConsumerGroup, with a connection for each of its flows.
type Worker struct {
	options WorkerOptions
	log     logr.Logger
	loop    *loop
	conns   atomic.Uint64 // the ConnID given last

	// Owned by the loop.
	group    *delivery.ConsumerGroup
	links    map[string]*link // by flow
	runs     map[delivery.RunID]*attempt
	beat     time.Duration            // the shortest heartbeat of all flows
	appReady bool                     // the app's own word
	queued   []delivery.ConsumerEvent // raised by the actions of a step, for after it
	idle     []*runner                // that wait for a handler to run
	runCtx   context.Context
	handlers sync.WaitGroup
	results  mailbox[*runner] // that have run a handler; not of the loop alone
	take     func()           // takeResults

	mu         sync.Mutex
	drained    chan struct{}
	unwritable error                   // the running set cannot be written; set by the loop alone
	status     delivery.ConsumerStatus // the last one, for after the end
}

// NewWorker returns a worker that does nothing until Run. AppReady starts false: call SetAppReady.
func NewWorker(options WorkerOptions) *Worker {
	if options.Random == nil {
		options.Random = CryptoRandom{}
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Running == nil {
		options.Running = Forgetful
	}
	if options.ReconnectMin <= 0 {
		options.ReconnectMin = 100 * time.Millisecond
	}
	if options.ReconnectMax <= 0 {
		options.ReconnectMax = time.Second
	}
	w := &Worker{
		options: options,
		log:     options.Log,
		loop:    newLoop(options.Clock),
		links:   map[string]*link{},
		runs:    map[delivery.RunID]*attempt{},
		runCtx:  context.Background(),
		drained: make(chan struct{}),
	}
	var flows []string
	for _, source := range options.Flows {
		flows = append(flows, source.Flow)
		w.links[source.Flow] = &link{worker: w, source: source, beat: 2 * time.Second}
	}
	w.take, w.beat = w.takeResults, w.shortestBeat()
	w.group = delivery.NewConsumerGroup(options.Config, options.Incarnation, options.Random, flows...)
	w.holdLeft()
	return w
}

// Run connects, and works until ctx ends; then it cancels the handlers that still run and waits for them. It returns nil.
func (w *Worker) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var background sync.WaitGroup
	w.runCtx = ctx
	for _, l := range w.links {
		background.Go(func() { l.connect(ctx) })
	}
	w.loop.run(ctx, w, func() bool { return true })
	cancel()
	w.mu.Lock()
	w.status = w.group.Status(w.loop.now())
	w.mu.Unlock()
	background.Wait()
	w.dismiss()
	w.handlers.Wait()
	return nil
}

// Status returns a snapshot.
func (w *Worker) Status() delivery.ConsumerStatus {
	var status delivery.ConsumerStatus
	if err := w.loop.call(context.Background(), func() { status = w.group.Status(w.loop.last) }); err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.status
	}
	return status
}

// Now is the time that ConsumerStatus.IdleSince is measured in.
func (w *Worker) Now() delivery.Now { return w.loop.now() }

// CordonIfIdle stops demand if, and only if, nothing is in flight; it is atomic with respect to job starts.
func (w *Worker) CordonIfIdle(ctx context.Context) (bool, delivery.ConsumerStatus) {
	var status delivery.ConsumerStatus
	err := w.loop.call(ctx, func() {
		w.step(delivery.Cordon{})
		status = w.group.Status(w.loop.last)
	})
	return err == nil && status.Cordoned, status
}

// StartDrain stops demand, hands unstarted jobs back and lets running ones finish. Drained tells the end. A worker that is
// drained already stays so: the operator's drain is over when prestop asks for the same one again.
func (w *Worker) StartDrain() {
	w.loop.post(func() {
		if !w.group.Status(w.loop.last).Drained {
			w.newDrain()
		}
		w.step(delivery.Cordon{Force: true})
	})
}

// Uncordon takes demand up again after CordonIfIdle or StartDrain.
func (w *Worker) Uncordon() {
	w.loop.post(func() {
		w.newDrain()
		w.step(delivery.Uncordon{})
	})
}

// Drained is closed when the drain that is going on, or comes next, has ended: nothing runs, and every settlement was taken over.
func (w *Worker) Drained() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.drained
}

// newDrain replaces the channel of a drain that has ended.
func (w *Worker) newDrain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.drained:
		w.drained = make(chan struct{})
	default:
	}
}

// SetAppReady says whether the app answers.
func (w *Worker) SetAppReady(ready bool) {
	w.loop.post(func() {
		w.appReady = ready
		w.step(delivery.AppReady{Ready: ready && w.unwritable == nil})
	})
}

// Reconfigure replaces the tunables.
func (w *Worker) Reconfigure(config delivery.ConsumerConfig) {
	w.loop.post(func() { w.step(delivery.ReconfigureConsumer{Config: config}) })
}

func (w *Worker) deadline() (delivery.Now, bool) { return w.group.NextDeadline() }
func (w *Worker) tick()                          { w.step(delivery.ConsumerTick{}) }
func (w *Worker) rest()                          {}

// heartbeat is the shortest of all flows: a pause longer than it may have cost one of them its binding.
func (w *Worker) heartbeat() time.Duration { return w.beat }

func (w *Worker) shortestBeat() time.Duration {
	var shortest time.Duration
	for _, l := range w.links {
		if shortest == 0 || l.beat < shortest {
			shortest = l.beat
		}
	}
	return shortest
}

func (w *Worker) paused(gap time.Duration) {
	w.log.Info("this process was paused", "seconds", gap.Seconds())
	w.step(delivery.ConsumerPaused{For: gap})
}

// step gives the machine an event, and those that its actions raise.
func (w *Worker) step(event delivery.ConsumerEvent) {
	w.group.Take(w.loop.last, event)
	w.act()
}

// act does what the events taken lead to.
func (w *Worker) act() {
	w.execute(w.group.Act(w.loop.last))
	for len(w.queued) > 0 {
		event := w.queued[0]
		w.queued = w.queued[1:]
		w.group.Take(w.loop.last, event)
		w.execute(w.group.Act(w.loop.last))
	}
}

// post queues an event for after the step that goes on.
func (w *Worker) post(event delivery.ConsumerEvent) { w.queued = append(w.queued, event) }

func (w *Worker) execute(todo *delivery.ConsumerTodo) {
	starts := todo.Starts
	for _, action := range todo.Actions {
		switch a := action.(type) {
		case delivery.StartNext:
			start := &starts[0]
			starts = starts[1:]
			if w.begin(start) {
				w.invoke(start)
			}
		case delivery.ToController:
			if l := w.link(a.Conn); l != nil {
				l.out.Offer(a.Message)
			}
		case delivery.Reconnect:
			if l := w.link(a.Conn); l != nil {
				l.close()
			}
		case delivery.ProducersEvicted:
			w.log.Info("forgot producers for want of room: jobs of theirs that had finished may run once more",
				"forgotten", a.Evicted, "remembered", a.Tracked)
		case delivery.DeliveryRefused:
			w.links[a.Flow].refused(a)
		case delivery.OrphanEnded:
			w.options.Running.End(a.MessageID)
		case delivery.CancelHandler:
			if attempt, ok := w.runs[a.Run]; ok {
				attempt.end(ErrAbandoned)
			}
		case delivery.Drained:
			w.mu.Lock()
			select {
			case <-w.drained:
			default:
				close(w.drained)
			}
			w.mu.Unlock()
		}
	}
}

// link returns the open link whose stream conn is, or nil.
func (w *Worker) link(conn delivery.ConnID) *link {
	for _, l := range w.links {
		if l.out != nil && l.conn == conn {
			return l
		}
	}
	return nil
}

// handled takes the word of a handler. A failure after the end of Run says nothing: it may be this worker that broke off, and the app may
// still be at it, which the next process of the pod has to know.
func (w *Worker) handled(r *runner) {
	start, result := &r.start, &r.result
	delete(w.runs, start.Run)
	if w.runCtx.Err() != nil && result.Outcome != protocol.Confirmed {
		return
	}
	w.options.Running.End(start.Delivery.Job.MessageID)
	w.group.Take(w.loop.last, delivery.HandlerDone{Run: start.Run, Outcome: result.Outcome, Reason: result.Reason, RetryAfter: result.RetryAfter})
}

func (w *Worker) handle(ctx context.Context, handler Handler, d *protocol.Delivery) (result Result) {
	defer func() {
		if cause := recover(); cause != nil {
			w.log.Error(fmt.Errorf("handler panicked: %v", cause), "the attempt counts as failed", "messageID", d.Job.MessageID)
			result = Result{Outcome: protocol.Nacked, Reason: "handler panicked"}
		}
		if result.Outcome < protocol.Confirmed || result.Outcome > protocol.Delayed || result.Outcome == protocol.Abandoned {
			result.Outcome = protocol.Nacked
		}
	}()
	return handler.Handle(ctx, *d)
}
