package endpoint

import (
	"context"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/queue"
)

// roomForgotten is when a queue that cannot be asked counts as having room again: nobody was turned away for so long.
const roomForgotten = time.Minute

// watchRoom looks after a full queue until ctx ends: it says when it became full and when it has room again, and asks for room, so that the
// figures tell the truth also when nobody submits.
func (p *Producer) watchRoom(ctx context.Context) {
	told := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.options.Clock.After(p.options.CompactEvery):
		}
		since, reason := p.fullness(ctx)
		switch full := reason != nil; {
		case full && !told:
			p.log.Info("the queue is full: new jobs are refused until there is room, and stored ones are worked off; enlarge the volume or look after the database",
				"cause", reason.Error())
			told = true
		case !full && told:
			p.log.Info("the queue takes new jobs again")
			told = false
		}
		if reason != nil && p.hasRoom(ctx, since) {
			p.loop.post(func() { p.step(delivery.QueueHasRoom{}) })
		}
	}
}

// fullness is how long ago the queue turned the latest new job away, and why; nil while it has room.
func (p *Producer) fullness(ctx context.Context) (ago time.Duration, reason error) {
	_ = p.loop.call(ctx, func() {
		if p.controller == nil || p.failure != nil {
			return
		}
		var at delivery.Now
		if at, reason = p.controller.Fullness(); reason != nil {
			ago = p.loop.last - at
		}
	})
	return ago, reason
}

func (p *Producer) hasRoom(ctx context.Context, ago time.Duration) bool {
	roomy, can := p.options.Queue.(queue.Roomy)
	if !can {
		return ago >= roomForgotten
	}
	ctx, cancel := context.WithTimeout(ctx, p.operationTimeout())
	defer cancel()
	return roomy.HasRoom(ctx, queue.Epoch(p.epoch.Load())) == nil
}
