package handler

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	appv1 "github.com/workpulling/workpulling/runtime/protocol/app/v1"
)

// MaxAppStreams is how many streams the processes of an app may have open at once.
const MaxAppStreams = 64

// Reasons of deliveries that the app did not answer.
const (
	reasonNoStream = "no process of the app has a stream open"
	reasonBroken   = "the stream to the app broke"
	reasonStopped  = "the sidecar stopped while the handler was running"
	reasonTooLate  = "its time was over before the app could be given it"
)

// StreamsOptions configure Streams.
type StreamsOptions struct {
	Log logr.Logger
	// Namespace and Pool are what an app is told about where it works.
	Namespace, Pool string
	// Concurrency is the pool's, for the app to know; Timeout is the handler's, 0 for none. Both are asked anew each time, and must not
	// call Streams.
	Concurrency func() int
	Timeout     func() time.Duration
	// Changed is told that Ready or Capacity may have changed.
	Changed func()
	// EarlierEnded is told that no process of the app runs anything that an earlier process of this sidecar gave it.
	EarlierEnded func()
	// HelloTimeout is how long a stream may take to say hello (10 s).
	HelloTimeout time.Duration
	Clock        clock.Clock
}

// Streams hand deliveries to the processes of the app that have a stream of workpulling.app.v1 open, the one with the fewest first. They
// are the service of that name. For makes the endpoint.Handler of a flow.
type Streams struct {
	appv1.UnimplementedWorkerServer
	options StreamsOptions

	mu       sync.Mutex
	closed   error     // why streams are refused; nil while they are welcome
	visitors int       // streams, greeted or not
	open     []*stream // that take deliveries, in the order in which they said hello
	turn     int       // where to look first among equals
	waiting  []*attempt
}

// NewStreams returns Streams that welcome every app. Concurrency, Timeout, Changed and EarlierEnded may be nil.
func NewStreams(options StreamsOptions) *Streams {
	if options.Concurrency == nil {
		options.Concurrency = func() int { return 0 }
	}
	if options.Timeout == nil {
		options.Timeout = func() time.Duration { return 0 }
	}
	if options.Changed == nil {
		options.Changed = func() {}
	}
	if options.EarlierEnded == nil {
		options.EarlierEnded = func() {}
	}
	if options.HelloTimeout <= 0 {
		options.HelloTimeout = 10 * time.Second
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &Streams{options: options}
}

// Register serves the streams on a gRPC server.
func (s *Streams) Register(server grpc.ServiceRegistrar) { appv1.RegisterWorkerServer(server, s) }

// Ready reports whether a process of the app takes deliveries.
func (s *Streams) Ready() bool { return s.Open() > 0 }

// Open is how many streams take deliveries.
func (s *Streams) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Capacity is how many deliveries all streams together want at most; 0 means that no number was said.
func (s *Streams) Capacity() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := 0
	for _, st := range s.open {
		if st.limit == 0 {
			return 0
		}
		sum += st.limit
	}
	return sum
}

// Refuse ends the streams that are open, each once it has answered what it has, and refuses new ones because of cause. nil lets them
// in again.
func (s *Streams) Refuse(cause error) {
	s.mu.Lock()
	s.closed = cause
	if cause != nil {
		for _, st := range slices.Clone(s.open) {
			s.retire(st, status.Error(codes.FailedPrecondition, cause.Error()))
		}
	}
	s.mu.Unlock()
	s.options.Changed()
}

// For is the handler of one flow.
func (s *Streams) For(flow string) endpoint.Handler {
	return endpoint.HandlerFunc(func(ctx context.Context, d protocol.Delivery) endpoint.Result {
		return s.handle(ctx, flow, d)
	})
}

// attempt is one delivery on its way to the app and back. Its fields below answer belong to Streams.mu.
type attempt struct {
	flow     string
	delivery protocol.Delivery
	due      time.Time // when its time is over; zero for never
	answer   chan endpoint.Result

	stream *stream // that it waits or was sent on; nil while no stream has room
	id     uint64  // on that stream, once it was sent; else 0
}

func (a *attempt) settle(result endpoint.Result) { a.answer <- result }

// attempts that were answered, and that nobody knows any more.
var attempts = sync.Pool{New: func() any { return &attempt{answer: make(chan endpoint.Result, 1)} }}

// forget gives an attempt back that was answered. Who settles one forgets it first.
func (a *attempt) forget() {
	*a = attempt{answer: a.answer}
	attempts.Put(a)
}

// handle has the same rules as a request of HTTP has: what no app was sent is handed back, a stream that breaks is a failure, and an
// abandoned attempt keeps its slot until the app has answered.
func (s *Streams) handle(ctx context.Context, flow string, d protocol.Delivery) endpoint.Result {
	a := attempts.Get().(*attempt)
	a.flow, a.delivery = flow, d
	if limit := s.options.Timeout(); limit > 0 {
		a.due = s.options.Clock.Now().Add(limit)
	}
	s.mu.Lock()
	taken := s.assign(a)
	s.mu.Unlock()
	if !taken {
		return endpoint.Result{Outcome: protocol.HandedBack, Reason: reasonNoStream}
	}
	select {
	case result := <-a.answer:
		a.forget()
		return result
	case <-ctx.Done():
	}
	abandoned := errors.Is(context.Cause(ctx), endpoint.ErrAbandoned)
	switch {
	case s.withdraw(a):
		return endpoint.Result{Outcome: protocol.HandedBack, Reason: reasonTooLate}
	case abandoned:
		s.cancel(a)
		return <-a.answer
	default:
		return endpoint.Result{Outcome: protocol.Nacked, Reason: reasonStopped}
	}
}

// assign gives an attempt to the stream with the fewest that has room, or lets it wait for one. It is false where there is no stream.
func (s *Streams) assign(a *attempt) bool {
	if len(s.open) == 0 {
		return false
	}
	best := s.freest()
	if best == nil {
		s.waiting = append(s.waiting, a)
		return true
	}
	best.queue = append(best.queue, a)
	a.stream = best
	best.wakeUp()
	return true
}

// freest is the stream with the fewest deliveries that has room for one, in turn among equals; nil if none has.
func (s *Streams) freest() *stream {
	var best *stream
	n := len(s.open)
	for i := range n {
		st := s.open[(s.turn+i)%n]
		if st.room() && (best == nil || st.load() < best.load()) {
			best = st
		}
	}
	s.turn = (s.turn + 1) % n
	return best
}

// assignWaiting gives what waits to the streams that have room now.
func (s *Streams) assignWaiting() {
	for len(s.waiting) > 0 && len(s.open) > 0 {
		best := s.freest()
		if best == nil {
			return
		}
		a := s.waiting[0]
		s.waiting[0] = nil
		s.waiting = s.waiting[1:]
		best.queue = append(best.queue, a)
		a.stream = best
		best.wakeUp()
	}
}

// withdraw takes back an attempt that no app was sent, and says whether it was one.
func (s *Streams) withdraw(a *attempt) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := func(other *attempt) bool { return other == a }
	switch {
	case a.id != 0:
		return false
	case a.stream != nil:
		a.stream.queue = slices.DeleteFunc(a.stream.queue, is)
		a.stream.wakeUp() // it may have left, and waited for this alone
	default:
		s.waiting = slices.DeleteFunc(s.waiting, is)
	}
	return true
}

// cancel tells the app that the outcome of an attempt does not count any more.
func (s *Streams) cancel(a *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.stream.sent[a.id] == a {
		a.stream.cancels = append(a.stream.cancels, a.id)
		a.stream.wakeUp()
	}
}

// enter counts a stream that has begun.
func (s *Streams) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed != nil:
		return status.Error(codes.FailedPrecondition, s.closed.Error())
	case s.visitors >= MaxAppStreams:
		return status.Errorf(codes.ResourceExhausted, "the app has %d streams open, which is the limit", s.visitors)
	}
	s.visitors++
	return nil
}

// greet lets a stream take deliveries.
func (s *Streams) greet(st *stream, hello *appv1.Hello) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed != nil {
		return status.Error(codes.FailedPrecondition, s.closed.Error())
	}
	st.greeted = true
	st.limit = int(min(hello.GetMaxDeliveries(), protocol.MaxFlowControlWindow))
	s.open = append(s.open, st)
	st.wakeUp()
	s.assignWaiting()
	return nil
}

// retire gives a stream nothing more. It ends with end once it has answered everything; what it was not sent yet goes to others, or back.
func (s *Streams) retire(st *stream, end error) {
	if st.retired {
		return
	}
	st.retired, st.end = true, end
	s.open = slices.DeleteFunc(s.open, func(other *stream) bool { return other == st })
	s.turn = 0
	unsent := st.queue
	st.queue = nil
	for _, a := range unsent {
		a.stream = nil
		if !s.assign(a) {
			a.settle(endpoint.Result{Outcome: protocol.HandedBack, Reason: reasonNoStream})
		}
	}
	if len(s.open) == 0 {
		for _, a := range s.waiting {
			a.settle(endpoint.Result{Outcome: protocol.HandedBack, Reason: reasonNoStream})
		}
		s.waiting = nil
	}
	st.wakeUp()
}

// leave forgets a stream that has ended. What it was sent and did not answer has failed.
func (s *Streams) leave(st *stream) {
	s.mu.Lock()
	s.visitors--
	st.over = true
	lost := st.sent
	st.sent = nil
	s.retire(st, nil)
	s.mu.Unlock()
	// First the worker learns that the app is gone, and then that slots are free: it should not fill them.
	s.options.Changed()
	for _, a := range lost {
		a.settle(endpoint.Result{Outcome: protocol.Nacked, Reason: reasonBroken})
	}
}
