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

// connect keeps one stream open until ctx ends. The wait between attempts is jittered, grows to ReconnectMax and starts anew
// after a stream that got a binding; a refusal with a later retry time is respected.
func (w *Worker) connect(ctx context.Context) {
	wait := w.options.ReconnectMin
	var logged time.Time
	for id := delivery.ConnID(1); ctx.Err() == nil; id++ {
		visit, err := w.visit(ctx, id)
		if ctx.Err() != nil {
			return
		}
		if visit.bound {
			wait, logged = w.options.ReconnectMin, time.Time{}
		}
		if now := w.options.Clock.Now(); now.Sub(logged) >= logEvery {
			logged = now
			w.log.Info("no stream to the producer, trying again", "cause", err.Error())
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
func (w *Worker) visit(ctx context.Context, id delivery.ConnID) (visit, error) {
	stream, err := w.options.Dial(ctx)
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
		w.conn, w.out, w.close = id, out, stream.Close
		w.step(delivery.Connected{Conn: id})
	})
	ended, err := w.receive(id, stream)
	stop()
	stream.Close()
	if sendErr := <-sent; errors.Is(err, context.Canceled) && sendErr != nil {
		err = sendErr
	}
	w.loop.post(func() {
		if w.conn == id {
			w.out, w.close = nil, nil
		}
		w.step(delivery.Disconnected{Conn: id})
	})
	return ended, err
}

// receive hands the stream's messages to the loop until it ends. Malformed ones are dropped.
func (w *Worker) receive(id delivery.ConnID, stream Stream) (ended visit, err error) {
	for {
		message, err := stream.Recv()
		switch {
		case errors.Is(err, protocol.ErrInvalid):
			w.log.V(1).Info("dropped a malformed message of the producer", "cause", err.Error())
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
		if !w.loop.post(func() { w.received(id, message) }) {
			return ended, ErrUnavailable
		}
	}
}

func (w *Worker) received(id delivery.ConnID, message protocol.ToWorker) {
	if ack, ok := message.(protocol.RegistrationAck); ok && ack.Heartbeat > 0 {
		w.beat = ack.Heartbeat
	}
	w.step(delivery.FromController{Conn: id, Message: message})
}
