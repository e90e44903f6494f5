package transport

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"time"
)

// OutboxDepth is how many messages may wait for one peer. Deliveries are bounded by demand long before that; a peer that lets
// this many pile up does not read.
const OutboxDepth = 4096

// ErrSlowPeer ends the stream of a peer that does not read.
var ErrSlowPeer = errors.New("the peer does not read what it is sent")

// Bounds of what is sent together.
const (
	gathered = 512
	// company is how long a message that is in no hurry waits for one that is.
	company = 5 * time.Millisecond
)

// Outbox is the send queue of one stream. Offer never blocks, so that one slow peer cannot hold up its host.
type Outbox[M any] struct {
	// Unhurried, where it is set before Run, tells which messages may wait a few milliseconds for others to go with: to send one alone costs
	// both ends more than the message.
	Unhurried func(M) bool

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

// Run sends until the queue is closed and empty (nil), aborted, or send fails. It is called once. send gets all that waits, in order, and
// must not keep the slice.
func (o *Outbox[M]) Run(ctx context.Context, send func(...M) error) error {
	patience := time.NewTimer(time.Hour)
	defer patience.Stop()
	var batch []M
	for {
		first, err := o.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		batch = o.gather(append(batch[:0], first))
		if o.unhurried(batch) {
			patience.Reset(company)
			if batch = o.await(ctx, batch, patience.C); ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if err := send(batch...); err != nil {
			return err
		}
		clear(batch)
	}
}

// gather takes what else waits. Before that it lets run who is about to say something.
func (o *Outbox[M]) gather(batch []M) []M {
	if len(o.messages) == 0 {
		runtime.Gosched()
	}
	for len(batch) < gathered {
		select {
		case message := <-o.messages:
			batch = append(batch, message)
		default:
			return batch
		}
	}
	return batch
}

// await adds messages until one of them is in a hurry, or patience ends.
func (o *Outbox[M]) await(ctx context.Context, batch []M, patience <-chan time.Time) []M {
	for o.unhurried(batch) {
		select {
		case message := <-o.messages:
			batch = o.gather(append(batch, message))
		case <-patience:
			return batch
		case <-o.closing:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

func (o *Outbox[M]) unhurried(batch []M) bool {
	if o.Unhurried == nil || len(batch) >= gathered {
		return false
	}
	for _, message := range batch {
		if !o.Unhurried(message) {
			return false
		}
	}
	return true
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
