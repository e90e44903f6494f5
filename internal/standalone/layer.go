package standalone

import (
	"context"
	"sync"
)

// layer is a set of parts that end together. The run ends its layers one after the other; a part that fails ends the run.
type layer struct {
	ctx   context.Context //nolint:containedctx // the life of the parts
	stop  context.CancelFunc
	fail  func(error)
	parts sync.WaitGroup
}

func newLayer(fail func(error)) *layer {
	ctx, stop := context.WithCancel(context.Background())
	return &layer{ctx: ctx, stop: stop, fail: fail}
}

func (l *layer) start(part func(context.Context) error) {
	l.parts.Go(func() {
		if err := part(l.ctx); err != nil {
			l.fail(err)
		}
	})
}

// end stops the parts and waits for them.
func (l *layer) end() {
	l.stop()
	l.parts.Wait()
}
