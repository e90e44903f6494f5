package endpoint

import (
	"context"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/queue"
)

func (b *mailbox[T]) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.items)
}

// Waiting is how many callers of Wait the producer remembers.
func (p *Producer) Waiting(ctx context.Context) (n int) {
	_ = p.loop.call(ctx, func() {
		for _, callers := range p.waiters {
			n += len(callers)
		}
	})
	return n
}

// Resolve does what the Controller asks for when a worker claims that it has finished jobs which the Controller does not hold.
func (p *Producer) Resolve(ctx context.Context, refs ...queue.JobRef) error {
	return p.loop.call(ctx, func() {
		p.resolve(delivery.ResolveClaims{Epoch: p.controller.Stats().Epoch, Refs: refs})
	})
}

// Idle tells whether no operation of the queue is on its way whose outcome the Controller waits for.
func (p *Producer) Idle(ctx context.Context) (idle bool) {
	_ = p.loop.call(ctx, func() { idle = p.lane.idle() })
	return idle
}
