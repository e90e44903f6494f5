package endpoint

import "context"

// Waiting is how many callers of Wait the producer remembers.
func (p *Producer) Waiting(ctx context.Context) (n int) {
	_ = p.loop.call(ctx, func() {
		for _, callers := range p.waiters {
			n += len(callers)
		}
	})
	return n
}
