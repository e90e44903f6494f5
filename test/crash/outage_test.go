//go:build crash

package crash

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/test/prober"
)

// LoseAPIServer is an outage of the API server.
const LoseAPIServer Kind = "the API server away"

// Times of an outage. The answers of the API server are remembered for half a minute: a worker that comes after unknownAfter is known by the
// cluster's keys, its pod and its Lease as they were last seen, and a submitter that was asked for at the end of an outage is still known for
// a while in the next.
const (
	betweenOutages = 10 * time.Second
	outageLasts    = time.Minute
	inFlightEnds   = 5 * time.Second
	unknownAfter   = 40 * time.Second
)

// outage takes the API server away from every sidecar and from the operator: connections hang, as those to a host that is gone.
type outage struct {
	*testing.T
	bed *Bed
	api *transporttest.Proxy
	hit map[Kind]int
}

// TestTheAPIServerIsAway takes the API server away under load. What is bound goes on without it, also when a worker dies; a sidecar that
// starts meanwhile binds again, though it can acquire no Lease; no pod is replaced for any of that (B-250, B-251).
func TestTheAPIServerIsAway(t *testing.T) {
	o := &outage{T: t, api: transporttest.NewProxy(t, ""), hit: map[Kind]int{}}
	ctx, bed := newBed(t, Options{API: func(address string) string {
		o.api.Retarget(address)
		return o.api.Address()
	}})
	o.bed = bed
	before := o.pods()
	run := ride(ctx, t, bed, bed.Load(*rate), func(ctx context.Context) (map[Kind]int, int, error) {
		for began := time.Now(); time.Since(began) < *length && ctx.Err() == nil; {
			prober.Pause(ctx, betweenOutages)
			if err := o.once(ctx); err != nil {
				return o.hit, 0, err
			}
		}
		return o.hit, 0, nil
	})
	if after := o.pods(); !slices.Equal(before, after) {
		t.Errorf("pods were replaced: %v, and then %v", before, after)
	}
	run.write(t, "Outages of the API server")
}

// once is one outage.
func (o *outage) once(ctx context.Context) error {
	o.api.Freeze()
	defer o.api.Thaw()
	o.hit[LoseAPIServer]++
	began := time.Now()
	until := func(at time.Duration) { prober.Pause(ctx, at-time.Since(began)) }
	victims := slices.DeleteFunc(o.bed.ready(v1alpha1.RoleWorker), func(p *pod) bool { return p.uid() == o.bed.Spared })
	if len(victims) < 2 {
		return fmt.Errorf("%d workers are ready beside the spared one, want 2", len(victims))
	}
	if err := o.kill(KillWorker, victims[0].containers()...); err != nil {
		return err
	}
	until(inFlightEnds)
	early := o.figure("workpulling_flow_confirmed_jobs_total")
	until(unknownAfter)
	if late := o.figure("workpulling_flow_confirmed_jobs_total"); late <= early {
		o.Errorf("%v jobs confirmed %s into the outage, and %v at %s: nothing goes on", early, inFlightEnds, late, unknownAfter)
	} else {
		o.Logf("%v jobs were confirmed between %s and %s into the outage", late-early, inFlightEnds, unknownAfter)
	}
	if err := o.kill(KillWorkerSidecar, victims[1].sidecar); err != nil {
		return err
	}
	until(outageLasts)
	if bound := o.figure("workpulling_flow_bound_workers"); bound != float64(o.bed.Workers) {
		o.Errorf("%v of %d workers are bound at the end of the outage, in which two started anew", bound, o.bed.Workers)
	}
	o.api.Thaw()
	for deadline := time.Now().Add(time.Minute); o.figure("workpulling_flow_bound_workers") != float64(o.bed.Workers); {
		if time.Now().After(deadline) || ctx.Err() != nil {
			o.Errorf("a minute after the outage %v of %d workers are bound", o.figure("workpulling_flow_bound_workers"), o.bed.Workers)
			return nil
		}
		prober.Pause(ctx, 100*time.Millisecond)
	}
	o.Logf("all workers are bound %s after the outage", milliseconds(time.Since(began)-outageLasts))
	return nil
}

// kill ends processes at once.
func (o *outage) kill(kind Kind, processes ...*container) error {
	for _, c := range processes {
		if _, err := c.kill(); err != nil {
			return err
		}
	}
	o.hit[kind]++
	return nil
}

// figure is one of the producer's, -1 where it does not tell.
func (o *outage) figure(name string) float64 {
	o.Helper()
	value, err := o.bed.metric(o.bed.Node.podsOf(v1alpha1.RoleProducer)[0], name)
	if err != nil {
		o.Logf("reading %s: %v", name, err)
		return -1
	}
	return value
}

// pods are the UIDs of those that there are.
func (o *outage) pods() []string {
	uids := map[string]bool{}
	for _, p := range o.bed.Node.podsOf("") {
		uids[p.uid()] = true
	}
	return slices.Sorted(maps.Keys(uids))
}
