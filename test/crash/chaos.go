package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/test/prober"
)

// Chaos carries out a schedule of faults on a bed.
type Chaos struct {
	Bed *Bed
	// Database kills the database and starts it again after a while. It says whether it was up.
	Database func(ctx context.Context, down time.Duration) (bool, error)
	// Say prints one line.
	Say func(format string, args ...any)

	mu   sync.Mutex
	done map[Kind]int
	idle int
}

// Run carries the faults out at their times, and returns when the last of them is over, which ctx cuts short.
func (c *Chaos) Run(ctx context.Context, faults []Fault) error {
	c.done = map[Kind]int{}
	start := time.Now()
	var lasting sync.WaitGroup
	defer lasting.Wait()
	failed := make(chan error, 1)
	for _, f := range faults {
		prober.Pause(ctx, time.Until(start.Add(f.At)))
		if ctx.Err() != nil {
			return nil
		}
		c.Say("%s  (%s)", f, time.Duration(prober.Now()))
		if !f.lasts() {
			if err := c.count(f)(c.do(ctx, f)); err != nil {
				return err
			}
			continue
		}
		lasting.Go(func() {
			if err := c.count(f)(c.do(ctx, f)); err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	lasting.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// count notes whether a fault hit anything.
func (c *Chaos) count(f Fault) func(bool, error) error {
	return func(hit bool, err error) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if hit {
			c.done[f.Kind]++
		} else {
			c.idle++
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Kind, err)
		}
		return nil
	}
}

// Done counts the faults that hit, by kind, and those that found nothing to hit because it was down already.
func (c *Chaos) Done() (hit map[Kind]int, idle int) { return c.done, c.idle }

// do carries one fault out, and says whether it hit a program that was up.
func (c *Chaos) do(ctx context.Context, f Fault) (bool, error) {
	worker, producer := c.pick(v1alpha1.RoleWorker, f), c.pick(v1alpha1.RoleProducer, f)
	switch f.Kind {
	case KillOperator:
		return c.Bed.operator.kill()
	case KillDatabase:
		return c.Database(ctx, f.For)
	case KillActive, KillStandby, FenceActive:
		return c.hitMember(ctx, f)
	case KillEverything:
		return killAll(append(c.targets(v1alpha1.RoleWorker), c.Bed.Node.podsOf(v1alpha1.RoleProducer)...), (*pod).containers)
	case KillEveryWorkerOnce:
		return killAll(c.targets(v1alpha1.RoleWorker), func(p *pod) []*container { return []*container{p.sidecar} })
	case KillProducer, PauseProducer, ReplaceProducer:
		return c.hit(ctx, f, producer)
	default:
		return c.hit(ctx, f, worker)
	}
}

// hit does to one pod what f says.
func (c *Chaos) hit(ctx context.Context, f Fault, p *pod) (bool, error) {
	if p == nil {
		return false, nil
	}
	switch f.Kind {
	case KillWorkerSidecar, KillProducer:
		return p.sidecar.kill()
	case KillApp:
		return p.app.kill()
	case KillWorker:
		return killAll([]*pod{p}, (*pod).containers)
	case ReplaceWorker, ReplaceProducer:
		// The node has lost power, and everything that ran on it at once.
		hit, err := killAll([]*pod{p}, (*pod).containers)
		return hit, errors.Join(err, c.Bed.Node.replace(ctx, p))
	case PauseWorkerSidecar, PauseProducer:
		return pauseFor(ctx, p.sidecar, f.For)
	case PauseApp:
		return pauseFor(ctx, p.app, f.For)
	default:
		return false, fmt.Errorf("nobody knows how to do %q", f.Kind)
	}
}

func pauseFor(ctx context.Context, c *container, length time.Duration) (bool, error) {
	over, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	return c.pause(over.Done())
}

func killAll(pods []*pod, of func(*pod) []*container) (hit bool, err error) {
	for _, p := range pods {
		for _, one := range of(p) {
			was, failed := one.kill()
			hit, err = hit || was, errors.Join(err, failed)
		}
	}
	return hit, err
}

// targets are the pods of a role that faults may come to.
func (c *Chaos) targets(role string) []*pod {
	return slices.DeleteFunc(c.Bed.Node.podsOf(role), func(p *pod) bool { return p.uid() == c.Bed.Spared })
}

func (c *Chaos) pick(role string, f Fault) *pod {
	pods := c.targets(role)
	if len(pods) == 0 {
		return nil
	}
	return pods[f.Target%len(pods)]
}
