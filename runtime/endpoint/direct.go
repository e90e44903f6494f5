package endpoint

import (
	"context"
	"sync"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// Direct makes the Dial of a worker in the same process: messages go from one loop to the other, without a wire form. The caller vouches
// for worker, whose PodUID is that of the Worker's incarnation. Payloads and headers are shared, so that nobody may change them.
func (p *Producer) Direct(worker delivery.Worker) func(context.Context) (Stream, error) {
	return func(ctx context.Context) (Stream, error) {
		s := &directStream{
			producer: p, podUID: worker.PodUID, ctx: ctx, conn: p.nextConn(), out: transport.NewOutbox[protocol.ToWorker](),
		}
		if !p.loop.doUnless(ctx.Done(), func() { p.attachWorker(s.conn, worker, s.out) }) {
			return nil, ErrUnavailable
		}
		return s, nil
	}
}

// directStream is a worker's stream to a producer of the same process.
type directStream struct {
	producer *Producer
	podUID   string
	conn     delivery.ConnID
	out      *transport.Outbox[protocol.ToWorker]
	ctx      context.Context //nolint:containedctx // the life of the stream
	closed   sync.Once
}

// Send gives messages to the producer, and waits while that has too much to do.
func (s *directStream) Send(messages ...protocol.FromWorker) error {
	for _, message := range messages {
		if !s.producer.loop.doUnless(s.out.Aborted(), func() { s.producer.fromWorker(s.conn, message) }) {
			return ErrUnavailable
		}
	}
	return nil
}

// Recv waits for the next message.
func (s *directStream) Recv() (protocol.ToWorker, error) { return s.out.Next(s.ctx) }

// Close ends the stream at both ends.
func (s *directStream) Close() {
	s.closed.Do(func() {
		s.out.Abort(context.Canceled)
		// Not here: the producer's loop may wait for a worker's, which is what calls this.
		go s.producer.loop.post(func() { s.producer.detachWorker(s.conn, s.podUID) })
	})
}
