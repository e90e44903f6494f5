package crash

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/test/prober"
)

// activeLimit is how long a fault waits for a producer to be active, so that most of those that come during a takeover hit the next.
const activeLimit = 3 * time.Second

// pollEvery is the time between two looks at something that is waited for.
const pollEvery = 50 * time.Millisecond

// Times that nothing here should take.
const (
	takeoverLimit = 30 * time.Second
	fencedLimit   = time.Minute
)

// active is the pod that says that it has the queue, nil where none does. One that is paused says nothing.
func (b *Bed) active() *pod {
	pods := b.Node.podsOf(v1alpha1.RoleProducer)
	says := make([]bool, len(pods))
	var asks sync.WaitGroup
	for i, p := range pods {
		asks.Go(func() {
			value, err := b.metric(p, "workpulling_flow_member_active")
			says[i] = err == nil && value == 1
		})
	}
	asks.Wait()
	if at := slices.Index(says, true); at >= 0 {
		return pods[at]
	}
	return nil
}

// follow keeps up with which producer has the queue, until ctx ends.
func (b *Bed) follow(ctx context.Context) {
	for ctx.Err() == nil {
		b.leader.Store(b.active())
		prober.Pause(ctx, syncEvery)
	}
}

// standsBy says whether the pod at an address is a producer that stood by a moment ago while another had the queue.
func (b *Bed) standsBy(host string) bool {
	leader := b.leader.Load()
	return leader != nil && leader.address.String() != host
}

// hitMember does to one of several producers what f says.
func (c *Chaos) hitMember(ctx context.Context, f Fault) (bool, error) {
	var active *pod
	if !prober.Await(ctx, activeLimit, pollEvery, func(context.Context) bool {
		active = c.Bed.active()
		return active != nil
	}) {
		return false, nil
	}
	switch f.Kind {
	case KillActive:
		return active.sidecar.kill()
	case KillStandby:
		others := slices.DeleteFunc(c.Bed.Node.podsOf(v1alpha1.RoleProducer), func(p *pod) bool { return p == active || p.sidecar.held() })
		if len(others) == 0 {
			return false, nil
		}
		return others[f.Target%len(others)].sidecar.kill()
	case FenceActive:
		return c.fence(ctx, active, f.For)
	default:
		return false, fmt.Errorf("nobody knows how to do %q", f.Kind)
	}
}

// fence pauses the active producer until another has taken over, and for longer; when it goes on it has to find that it was fenced. It
// says whether another took over: none can where the database or all others are down.
func (c *Chaos) fence(ctx context.Context, p *pod, longer time.Duration) (bool, error) {
	life, _ := p.sidecar.running()
	before, err := c.Bed.metric(p, "workpulling_flow_member_fenced_total")
	if err != nil {
		return false, nil // it was killed meanwhile
	}
	over, goOn := context.WithCancel(ctx)
	defer goOn()
	takeover := make(chan bool, 1)
	go func() {
		defer goOn()
		taken := prober.Await(ctx, takeoverLimit, pollEvery, func(context.Context) bool {
			next := c.Bed.active()
			return next != nil && next != p
		})
		if taken {
			prober.Pause(ctx, longer)
		}
		takeover <- taken
	}()
	if _, err := p.sidecar.pause(over.Done()); err != nil {
		return false, err
	}
	if now, _ := p.sidecar.running(); !<-takeover || now != life {
		return false, nil // it did not sleep through one
	}
	fenced := prober.Await(context.WithoutCancel(ctx), fencedLimit, pollEvery, func(context.Context) bool {
		count, err := c.Bed.metric(p, "workpulling_flow_member_fenced_total")
		now, _ := p.sidecar.running()
		return now != life || err == nil && count > before
	})
	if !fenced {
		return true, fmt.Errorf("%s went on after another producer had taken over, and is not fenced", p.name())
	}
	return true, nil
}
