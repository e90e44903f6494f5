package endpoint

import (
	"context"
	"time"

	"github.com/workpulling/workpulling/runtime/queue"
)

// compactLimit bounds one round, so that writes are not held up for long.
const compactLimit = 1000

// compact forgets tombstones that are old enough, until ctx ends.
func (p *Producer) compact(ctx context.Context) {
	wait := p.options.CompactEvery
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.options.Clock.After(wait):
		}
		wait = p.options.CompactEvery
		epoch := queue.Epoch(p.epoch.Load())
		if epoch == 0 {
			continue
		}
		began := p.options.Clock.Now()
		operation, cancel := context.WithTimeout(ctx, p.operationTimeout())
		removed, err := p.options.Queue.Compact(operation, epoch, compactLimit)
		cancel()
		if err != nil {
			// Not worth more than a debug line: what matters also shows in the next write.
			p.log.V(1).Info("compacting the queue failed", "cause", err.Error())
			continue
		}
		wait = compactPause(removed, p.options.Clock.Since(began), p.options.CompactEvery)
	}
}

// compactPause is how long to wait after a round. While there is more to forget, rounds and what they hold up share the time evenly, so that
// forgetting keeps up with any rate at which jobs end.
func compactPause(removed int, took, every time.Duration) time.Duration {
	if removed < compactLimit {
		return every
	}
	return min(max(took, time.Millisecond), every)
}
