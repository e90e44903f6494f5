package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/fencing"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/sidecar/telemetry"
)

// leaseUnsaid is how often the Lease is renewed where the configuration, which an operator of before wrote, does not say: as in a pool of a
// thousand.
var leaseUnsaid = runtimeconfig.LeaseInterval(1000)

// leasePatience is how long the first registration waits for the Lease: a producer that sees the worker before its Lease has to ask the API
// server, and sends it away for seconds. A silent API server delays a start by no more than this.
const leasePatience = 2 * time.Second

// doubtEvery is how often the tenant asks whether a producer doubts this incarnation: then the Lease is looked at before it is due.
const doubtEvery = 5 * time.Second

// errIncarnationOver ends the process of an incarnation that is over. Kubelet starts the next one, which acquires the Lease anew.
var errIncarnationOver = errors.New("this incarnation of the worker is over")

// Lease is the Lease of the pod.
type Lease interface {
	Read(ctx context.Context) (fencing.LeaseRecord, error)
	Create(ctx context.Context, holder string, duration time.Duration) (fencing.LeaseRecord, error)
	Hold(ctx context.Context, holder string, duration time.Duration, seen fencing.LeaseRecord) (fencing.LeaseRecord, error)
}

// tenant holds the Lease of the pod for this incarnation, as fencing.Tenure says.
type tenant struct {
	log    logr.Logger
	lease  Lease
	holder string
	clock  clock.WithTicker
	// interval is how often the Lease is renewed.
	interval func() time.Duration
	changed  chan struct{} // something to look at now
	// doubted says whether a producer takes another process of the pod for the newer one.
	doubted   func() bool
	doubtedAt fencing.Now
	tried     chan struct{} // closed when the Lease is held or the API server has failed once
	once      sync.Once

	tenure   *fencing.Tenure
	began    time.Time
	failing  bool
	held     atomic.Bool
	count    atomic.Int32  // incarnations that have held the Lease
	failures atomic.Uint64 // calls without an answer
	writes   atomic.Uint64
}

// newTenant returns the tenant of this incarnation, nil where the pod has no Lease.
func (s *sidecar) newTenant() (*tenant, error) {
	document, lease := s.first.Value, s.Lease
	if lease == nil {
		if s.APIDir == "" {
			return nil, nil //nolint:nilnil // a worker outside of a cluster has no Lease
		}
		if _, err := os.Stat(filepath.Join(s.APIDir, "token")); err != nil {
			return nil, nil //nolint:nilerr,nilnil // the pod was made by an operator that knows of no Lease
		}
		ours, err := fencing.NewWorkerLeaseFromFiles(s.APIDir, fencing.WorkerPod{
			Namespace: document.Namespace, Pool: document.Pool, Name: s.PodName, UID: s.Incarnation.PodUID,
		})
		if err != nil {
			return nil, fmt.Errorf("preparing the Lease: %w", err)
		}
		lease = ours
	}
	interval := func() time.Duration {
		return cmp.Or(time.Duration(s.document.Load().Value.LeaseRenewSec)*time.Second, leaseUnsaid)
	}
	t := &tenant{
		log: s.Log.WithName("lease"), lease: lease, holder: fencing.HolderOf(s.Incarnation), clock: clock.RealClock{}, interval: interval,
		changed: make(chan struct{}, 1), tried: make(chan struct{}), doubted: s.superseded,
		tenure: fencing.NewTenure(s.Incarnation, interval(), rand.Float64),
	}
	t.began = t.clock.Now()
	telemetry.RegisterLease(s.registry, t.held.Load, t.count.Load, t.writes.Load, t.failures.Load)
	return t, nil
}

// superseded says whether the last word of a producer was that another process of this pod took its place.
func (s *sidecar) superseded() bool {
	return slices.ContainsFunc(s.worker.Status().Flows, func(f delivery.ConsumerStatus) bool {
		return strings.HasPrefix(f.LastRefusal, string(protocol.RefusedSuperseded)+":")
	})
}

// poke makes the tenant look at the configuration, and at the Lease if that may have another holder.
func (t *tenant) poke() {
	select {
	case t.changed <- struct{}{}:
	default: // a look is due already
	}
}

// wait waits until the Lease is held, or for as long as is good for a start.
func (t *tenant) wait(ctx context.Context) {
	if t == nil {
		return
	}
	timer := t.clock.NewTimer(leasePatience)
	defer timer.Stop()
	select {
	case <-t.tried:
	case <-timer.C():
	case <-ctx.Done():
	}
}

// run holds the Lease until ctx ends, and returns why this incarnation is over if that comes first.
func (t *tenant) run(ctx context.Context) (over string) {
	for ctx.Err() == nil {
		interval := t.interval()
		t.tenure.Reconfigure(t.now(), interval)
		t.doubt(interval)
		step, wait := t.tenure.Next(t.now())
		switch step {
		case fencing.TenureEnd:
			t.held.Store(false)
			return t.tenure.Over()
		case fencing.TenureRest:
			t.rest(ctx, min(wait, doubtEvery))
		default:
			t.do(ctx, step, runtimeconfig.LeaseDuration(interval))
		}
	}
	return ""
}

// doubt has the Lease looked at where a producer says that this process is over, but not so often that a whole pool of them is a load.
func (t *tenant) doubt(interval time.Duration) {
	if !t.tenure.Held() || !t.doubted() || t.now()-t.doubtedAt < max(doubtEvery, interval/8) {
		return
	}
	t.doubtedAt = t.now()
	t.tenure.Poke(t.now())
}

// do does one step, and says what changed.
func (t *tenant) do(ctx context.Context, step fencing.TenureStep, duration time.Duration) {
	var record fencing.LeaseRecord
	var err error
	switch step {
	case fencing.TenureRead:
		record, err = t.lease.Read(ctx)
	case fencing.TenureCreate:
		record, err = t.lease.Create(ctx, t.holder, duration)
	default:
		record, err = t.lease.Hold(ctx, t.holder, duration, t.tenure.Seen())
	}
	if ctx.Err() != nil {
		return // what was broken off says nothing
	}
	if step == fencing.TenureRead {
		t.tenure.Read(t.now(), record, err)
	} else {
		t.tenure.Wrote(t.now(), record, err)
	}
	t.note(step, err)
}

// note counts, and tells of the beginning and the end of a trouble.
func (t *tenant) note(step fencing.TenureStep, err error) {
	if err == nil && step != fencing.TenureRead {
		t.writes.Add(1)
	}
	t.count.Store(t.tenure.Transitions())
	if held := t.tenure.Held(); t.held.Swap(held) != held && held {
		t.log.Info("Holding the Lease of this pod", "incarnation", t.tenure.Transitions(), "renewing", t.interval().String())
	}
	failing := t.tenure.Failing()
	if failing {
		t.failures.Add(1)
	}
	if failing != t.failing {
		t.failing = failing
		if failing {
			t.log.Info("The API server does not answer about the Lease; the worker goes on without", "step", string(step), "error", err.Error())
		} else {
			t.log.Info("The API server answers about the Lease again")
		}
	}
	if failing || t.tenure.Held() || t.tenure.Over() != "" {
		t.once.Do(func() { close(t.tried) })
	}
}

func (t *tenant) rest(ctx context.Context, wait time.Duration) {
	timer := t.clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-t.changed:
	case <-ctx.Done():
	}
}

func (t *tenant) now() fencing.Now { return t.clock.Since(t.began) }

// holdLease holds the Lease until the worker ends. Where this incarnation is over, nothing new is taken, what runs gets a moment to end, and
// then the process ends: the next one takes over what it has on its hands. What ended since its binding did, nobody will hear of from it.
func (s *sidecar) holdLease(ctx context.Context) error {
	over := s.tenant.run(ctx)
	if over == "" {
		return nil
	}
	if s.worker.Status().Draining {
		s.Log.Info("The Lease is lost while the worker drains, which goes on", "reason", over)
		return nil
	}
	s.Log.Error(errIncarnationOver, "Taking no more jobs and ending", "reason", over)
	s.drain(ctx, s.unheard)
	return fmt.Errorf("%w: %s", errIncarnationOver, over)
}

// unheard says that nothing runs here any more, and that no flow with something to settle listens to this incarnation: nor will it again.
func (s *sidecar) unheard() bool {
	status := s.worker.Status()
	return status.Running == 0 && !slices.ContainsFunc(status.Flows, func(f delivery.ConsumerStatus) bool {
		return f.Registered && f.Unsettled > 0
	})
}
