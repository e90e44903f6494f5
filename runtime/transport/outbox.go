package transport

import (
	"context"
	"errors"
	"io"
	"sync"
)

// OutboxDepth is how many messages may wait for one peer. Deliveries are bounded by demand long before that; a peer that lets
// this many pile up does not read.
const OutboxDepth = 4096

// ErrSlowPeer ends the stream of a peer that does not read.
var ErrSlowPeer = errors.New("the peer does not read what it is sent")

// Outbox is the send queue of one stream. Offer never blocks, so that one slow peer cannot hold up its host.
type Outbox[M any] struct {
	messages chan M
	closing  chan struct{} // no more messages; what is queued still goes out
	aborted  chan struct{} // nothing goes out any more
	closed   sync.Once
	abort    sync.Once
	err      error
}

// NewOutbox returns an empty queue.
func NewOutbox[M any]() *Outbox[M] {
	return &Outbox[M]{messages: make(chan M, OutboxDepth), closing: make(chan struct{}), aborted: make(chan struct{})}
}

// Offer queues one message. A message that finds no room is lost, and the stream with it.
func (o *Outbox[M]) Offer(message M) {
	select {
	case <-o.closing:
		return
	default:
	}
	select {
	case o.messages <- message:
	default:
		o.Abort(ErrSlowPeer)
	}
}

// Close ends the stream after the messages before it.
func (o *Outbox[M]) Close() { o.closed.Do(func() { close(o.closing) }) }

// Abort ends the stream at once.
func (o *Outbox[M]) Abort(err error) {
	o.abort.Do(func() {
		o.err = err
		close(o.aborted)
	})
	o.Close()
}

// Err says why the queue was aborted, once Aborted is closed.
func (o *Outbox[M]) Err() error { return o.err }

// Aborted is closed by Abort.
func (o *Outbox[M]) Aborted() <-chan struct{} { return o.aborted }

// Run sends until the queue is closed and empty (nil), aborted, or send fails. It is called once.
func (o *Outbox[M]) Run(ctx context.Context, send func(M) error) error {
	for {
		select {
		case <-o.aborted:
			return o.err
		default:
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-o.aborted:
			return o.err
		case message := <-o.messages:
			if err := send(message); err != nil {
				return err
			}
		case <-o.closing:
			return o.flush(send)
		}
	}
}

// Next waits for the next message, for a peer in this process that takes them itself: it calls Next in place of Run. io.EOF means that
// the queue is closed and empty.
func (o *Outbox[M]) Next(ctx context.Context) (message M, err error) {
	select { // most often there is one
	case <-o.aborted:
		return message, o.err
	case message = <-o.messages:
		return message, nil
	default:
	}
	select {
	case <-ctx.Done():
		return message, ctx.Err()
	case <-o.aborted:
		return message, o.err
	case message = <-o.messages:
		return message, nil
	case <-o.closing:
	}
	select { // what was offered before the end still goes out
	case message = <-o.messages:
		return message, nil
	default:
		return message, io.EOF
	}
}

func (o *Outbox[M]) flush(send func(M) error) error {
	for {
		select {
		case <-o.aborted:
			return o.err
		case message := <-o.messages:
			if err := send(message); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}
