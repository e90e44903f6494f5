package endpoint

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// logEvery paces the log lines about a producer that cannot be reached.
const logEvery = time.Minute

// link is a worker's connection to the producer of one flow.
type link struct {
	worker *Worker
	source Source

	// Owned by the worker's loop. out and close are nil while no stream is open.
	conn  delivery.ConnID
	out   *transport.Outbox[protocol.FromWorker]
	close func()
	beat  time.Duration

	refusals pace // of lines about refused deliveries

	complaints pace // of lines about malformed frames; of the goroutine that receives
}

// pace lets a line into the log once in logEvery.
type pace struct{ last time.Time }

func (p *pace) due(now time.Time) bool {
	due := now.Sub(p.last) >= logEvery
	if due {
		p.last = now
	}
	return due
}

// connect keeps one stream open until ctx ends. The wait between attempts is jittered, grows to ReconnectMax and starts anew
// after a stream that got a binding; a refusal with a later retry time is respected.
func (l *link) connect(ctx context.Context) {
	w := l.worker
	wait := w.options.ReconnectMin
	var failures pace
	for ctx.Err() == nil {
		visit, err := l.visit(ctx, delivery.ConnID(w.conns.Add(1)))
		if ctx.Err() != nil {
			return
		}
		if visit.bound {
			wait, failures = w.options.ReconnectMin, pace{}
		}
		if failures.due(w.options.Clock.Now()) {
			w.log.Info("no stream to the producer, trying again", "flow", l.source.Flow, "cause", err.Error())
		}
		pause := max(wait, visit.retryAfter)
		pause = time.Duration(float64(pause) * (0.75 + w.options.Random.Float64()/2))
		select {
		case <-ctx.Done():
		case <-w.options.Clock.After(pause):
		}
		wait = min(wait*2, w.options.ReconnectMax)
	}
}

// visit is what became of one stream.
type visit struct {
	bound      bool
	retryAfter time.Duration
}

// visit opens one stream and serves it until it ends, which is always an error.
func (l *link) visit(ctx context.Context, id delivery.ConnID) (visit, error) {
	w := l.worker
	stream, err := l.source.Dial(ctx)
	if err != nil {
		return visit{}, err
	}
	out := transport.NewOutbox[protocol.FromWorker]()
	var sent = make(chan error, 1)
	sending, stop := context.WithCancel(ctx)
	go func() {
		err := out.Run(sending, stream.Send)
		stream.Close()
		sent <- err
	}()
	w.loop.post(func() {
		l.conn, l.out, l.close = id, out, stream.Close
		w.step(delivery.Connected{Conn: id, Flow: l.source.Flow})
	})
	ended, err := l.receive(id, stream)
	stop()
	stream.Close()
	if sendErr := <-sent; errors.Is(err, context.Canceled) && sendErr != nil {
		err = sendErr
	}
	w.loop.post(func() {
		if l.conn == id {
			l.out, l.close = nil, nil
		}
		w.step(delivery.Disconnected{Conn: id})
	})
	return ended, err
}

// receive hands the stream's messages to the loop until it ends. Malformed ones are dropped and counted.
func (l *link) receive(id delivery.ConnID, stream Stream) (ended visit, err error) {
	for {
		message, err := stream.Recv()
		switch {
		case errors.Is(err, protocol.ErrInvalid):
			l.malformed(id, err)
			continue
		case errors.Is(err, io.EOF):
			return ended, errors.New("the producer ended the stream")
		case err != nil:
			return ended, err
		}
		switch m := message.(type) {
		case protocol.RegistrationAck:
			ended = visit{bound: true}
		case protocol.RegistrationRefused:
			ended.retryAfter = m.RetryAfter
		case protocol.BindingEnded:
			ended.retryAfter = m.RetryAfter
		}
		if !l.worker.loop.do(func() { l.received(id, message) }) {
			return ended, ErrUnavailable
		}
	}
}

// malformed counts a frame that nobody can read, and says so at most once in a while: who sends them must not fill the log.
func (l *link) malformed(id delivery.ConnID, err error) {
	w := l.worker
	if l.complaints.due(w.options.Clock.Now()) {
		w.log.Info("dropped a malformed message of the producer", "flow", l.source.Flow, "cause", err.Error())
	}
	w.loop.post(func() { w.step(delivery.Malformed{Conn: id}) })
}

// refused says that a delivery was not admissible, at most once in a while, for the same reason.
func (l *link) refused(a delivery.DeliveryRefused) {
	w := l.worker
	if l.refusals.due(w.options.Clock.Now()) {
		w.log.Info("refused a delivery that is not admissible", "flow", a.Flow, "workerSeq", a.WorkerSeq, "cause", a.Cause.Error())
	}
}

func (l *link) received(id delivery.ConnID, message protocol.ToWorker) {
	if ack, ok := message.(protocol.RegistrationAck); ok && ack.Heartbeat > 0 {
		l.beat = ack.Heartbeat
		l.worker.beat = l.worker.shortestBeat()
	}
	l.worker.step(delivery.FromController{Conn: id, Message: message})
}
