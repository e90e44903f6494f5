package handler

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	appv1 "github.com/workpulling/workpulling/runtime/protocol/app/v1"
)

// maxUnread is how many refusals may wait for an app. One that lets so many pile up sends nonsense and does not read.
const maxUnread = 1024

// stream is one stream of one process of the app. All but owner and wire belong to Streams.mu.
type stream struct {
	owner *Streams
	wire  appv1.Worker_WorkServer
	wake  chan struct{}

	limit    int  // of deliveries; 0 for none
	greeted  bool // the app has said hello
	welcomed bool // and was answered
	retired  bool // takes no more deliveries
	over     bool
	end      error // how it ends, once retired and empty

	last     uint64 // the delivery id that was given last
	queue    []*attempt
	sent     map[uint64]*attempt
	cancels  []uint64
	refusals []*appv1.Refusal
}

func (st *stream) load() int  { return len(st.queue) + len(st.sent) }
func (st *stream) room() bool { return st.limit == 0 || st.load() < st.limit }

// wakeUp makes the sender look.
func (st *stream) wakeUp() {
	select {
	case st.wake <- struct{}{}:
	default: // it will look
	}
}

// Work serves one stream of the app until either side ends it.
func (s *Streams) Work(server appv1.Worker_WorkServer) error {
	if err := s.enter(); err != nil {
		return err
	}
	st := &stream{owner: s, wire: server, wake: make(chan struct{}, 1), sent: map[uint64]*attempt{}}
	defer s.leave(st)
	greeted, ended := make(chan struct{}), make(chan error, 2)
	go func() { ended <- st.receive(greeted) }()
	patience := s.options.Clock.NewTimer(s.options.HelloTimeout)
	defer patience.Stop()
	select {
	case err := <-ended:
		return err
	case <-patience.C():
		return status.Error(codes.DeadlineExceeded, "the app has not said hello")
	case <-greeted:
	}
	s.options.Changed()
	go func() { ended <- st.send(server.Context()) }()
	err := <-ended
	s.options.Log.Info("A stream of the app ended", "cause", causeOf(err))
	return err
}

// causeOf is how a log names the end of a stream.
func causeOf(err error) string {
	if err == nil {
		return "the app left"
	}
	return status.Convert(err).Message()
}

// receive takes the app's frames until the stream ends.
func (st *stream) receive(greeted chan<- struct{}) error {
	frame, err := st.wire.Recv()
	if err != nil {
		return hungUp(err, 0)
	}
	if err := st.hello(frame.GetHello()); err != nil {
		return err
	}
	close(greeted)
	for {
		if err := st.take(frame); err != nil {
			return err
		}
		if frame, err = st.wire.Recv(); err != nil {
			return hungUp(err, st.unanswered())
		}
		if frame.GetHello() != nil {
			return status.Error(codes.InvalidArgument, "hello belongs into the first frame alone")
		}
	}
}

// hungUp names the end of the app's half of the stream.
func hungUp(err error, unanswered int) error {
	switch {
	case !errors.Is(err, io.EOF):
		return err
	case unanswered > 0:
		return status.Errorf(codes.Aborted, "the app ended its stream before it had answered %d deliveries", unanswered)
	}
	return nil
}

func (st *stream) unanswered() int {
	st.owner.mu.Lock()
	defer st.owner.mu.Unlock()
	return len(st.sent)
}

// hello opens the stream for deliveries.
func (st *stream) hello(hello *appv1.Hello) error {
	switch {
	case hello == nil:
		return status.Error(codes.InvalidArgument, "the first frame has to say hello")
	case hello.GetVersion() != AppVersion:
		return status.Errorf(codes.FailedPrecondition, "the app speaks version %d of the app API, this sidecar speaks %d", hello.GetVersion(), AppVersion)
	}
	if err := st.owner.greet(st, hello); err != nil {
		return err
	}
	st.owner.options.Log.Info("The app opened a stream", "app", clipName(hello.GetApp()), "maxDeliveries", hello.GetMaxDeliveries())
	return nil
}

// maxNameBytes is kept of the app's name.
const maxNameBytes = 256

func clipName(name string) string {
	return strings.ToValidUTF8(name[:min(len(name), maxNameBytes)], "?")
}

// take takes one frame in.
func (st *stream) take(frame *appv1.AppFrame) error {
	s := st.owner
	if frame.GetEarlierEnded() {
		s.options.EarlierEnded()
	}
	s.mu.Lock()
	for _, outcome := range frame.GetOutcomes() {
		st.settle(outcome)
	}
	s.assignWaiting()
	drowning := len(st.refusals) == maxUnread
	leaving := frame.GetLeaving() && !st.retired
	if leaving {
		s.retire(st, nil)
	} else if st.retired {
		st.wakeUp() // that may have been the last answer
	}
	s.mu.Unlock()
	if leaving {
		s.options.Changed()
	}
	if drowning {
		return status.Error(codes.ResourceExhausted, "the app sends outcomes of no deliveries and does not read what it is told about them")
	}
	return nil
}

// settle takes one outcome, or says why not.
func (st *stream) settle(outcome *appv1.Outcome) {
	id := outcome.GetDeliveryId()
	a, ok := st.sent[id]
	switch {
	case !ok && id != 0 && id <= st.last:
		st.refuse(id, appv1.RefusalCode_REFUSAL_CODE_ALREADY_ANSWERED, "the delivery is answered already; the first outcome stands")
		return
	case !ok:
		st.refuse(id, appv1.RefusalCode_REFUSAL_CODE_UNKNOWN_DELIVERY, "nothing was delivered under this id on this stream")
		return
	}
	result, known := resultOf(outcome)
	if !known {
		st.refuse(id, appv1.RefusalCode_REFUSAL_CODE_UNKNOWN_RESULT, "the result is not known; the attempt counts as failed")
	}
	delete(st.sent, id)
	a.settle(result)
}

// refuse tells the app about an outcome. What would be more than maxUnread is left out, for then the stream ends.
func (st *stream) refuse(id uint64, code appv1.RefusalCode, text string) {
	if len(st.refusals) == maxUnread {
		return
	}
	st.refusals = append(st.refusals, &appv1.Refusal{DeliveryId: id, Code: code, Text: text})
	st.wakeUp()
}

// send writes what there is, as much as a frame holds, until the stream ends or has nothing more to come.
func (st *stream) send(ctx context.Context) error {
	for {
		// Whoever has something to say and could say it now gets to, so that it goes into the same frame. Where nobody has, no time passes.
		runtime.Gosched()
		frame, done, err := st.next()
		switch {
		case done:
			return err
		case frame == nil:
			select {
			case <-st.wake:
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		if err := st.wire.Send(frame); err != nil {
			return err
		}
	}
}

// next makes the next frame, nil if there is nothing to say yet. done says that there never will be.
func (st *stream) next() (frame *appv1.SidecarFrame, done bool, err error) {
	s := st.owner
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case st.over:
		return nil, true, nil
	case !st.welcomed:
		st.welcomed = true
		return &appv1.SidecarFrame{Welcome: s.welcome()}, false, nil
	}
	cancellations := st.cancellations()
	if len(st.queue) == 0 && len(cancellations) == 0 && len(st.refusals) == 0 {
		return nil, st.retired && len(st.sent) == 0, st.end
	}
	frame = &appv1.SidecarFrame{Refusals: st.refusals, Cancellations: cancellations, Deliveries: st.deliveries()}
	st.refusals = nil
	return frame, false, nil
}

// cancellations takes those whose answer was not faster.
func (st *stream) cancellations() (out []*appv1.Cancellation) {
	for _, id := range st.cancels {
		if st.sent[id] != nil {
			out = append(out, &appv1.Cancellation{DeliveryId: id, Reason: appv1.CancelReason_CANCEL_REASON_TIMEOUT})
		}
	}
	st.cancels = nil
	return out
}

func (s *Streams) welcome() *appv1.Welcome {
	return &appv1.Welcome{
		Version: AppVersion, Namespace: s.options.Namespace, Pool: s.options.Pool,
		Concurrency: uint32(max(s.options.Concurrency(), 0)), MaxFrameBytes: MaxAppFrameBytes,
	}
}

// deliveries takes as many of the queue as a frame holds, at least one. From here on the app may have them.
func (st *stream) deliveries() []*appv1.Delivery {
	n, bytes := 0, 0
	for ; n < len(st.queue); n++ {
		if bytes += size(&st.queue[n].delivery); bytes > frameBytes && n > 0 {
			break
		}
	}
	if n == 0 {
		return nil
	}
	s := st.owner
	now := s.options.Clock.Now()
	out, room := make([]*appv1.Delivery, n), make([]appv1.Delivery, n)
	for i, a := range st.queue[:n] {
		st.last++
		a.id = st.last
		st.sent[a.id] = a
		a.write(&room[i], s.options.Namespace, left(a.due, now))
		out[i] = &room[i]
	}
	rest := copy(st.queue, st.queue[n:])
	clear(st.queue[rest:])
	st.queue = st.queue[:rest]
	return out
}

// left is what is left of an attempt's time: at least a moment, for it was not given up yet.
func left(due, now time.Time) time.Duration {
	if due.IsZero() {
		return 0
	}
	return max(due.Sub(now), time.Millisecond)
}
