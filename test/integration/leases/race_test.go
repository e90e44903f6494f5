//go:build integration

package leases

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/controllers/pool"
	"github.com/workpulling/workpulling/runtime/fencing"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/test/builders"
)

// runner is one process of a pod with its real Lease.
type runner struct {
	lease  *fencing.WorkerLease
	tenure *fencing.Tenure
	holder string
	steps  int
}

func (s *site) runner(pod *corev1.Pod, boot string) *runner {
	s.t.Helper()
	who := protocol.Incarnation{PodUID: string(pod.UID), BootNonce: boot}
	lease, err := fencing.NewWorkerLease(s.as("worker", pod), fencing.WorkerPod{
		Namespace: s.namespace, Pool: "packers", Name: pod.Name, UID: string(pod.UID),
	}, clock.RealClock{})
	must(s.t, err)
	return &runner{lease, fencing.NewTenure(who, time.Hour, rand.Float64), fencing.HolderOf(who), 0}
}

// settle does what is due at now; an hour is between renewals.
func (r *runner) settle(ctx context.Context, now fencing.Now) {
	for range 50 {
		var record fencing.LeaseRecord
		var err error
		step, _ := r.tenure.Next(now)
		switch step {
		case fencing.TenureRead:
			record, err = r.lease.Read(ctx)
			r.tenure.Read(now, record, err)
		case fencing.TenureCreate:
			record, err = r.lease.Create(ctx, r.holder, time.Minute)
			r.tenure.Wrote(now, record, err)
		case fencing.TenureHold:
			record, err = r.lease.Hold(ctx, r.holder, time.Minute, r.tenure.Seen())
			r.tenure.Wrote(now, record, err)
		default:
			return
		}
		r.steps++
	}
}

// Processes of one pod that start at the same time race for its Lease: one holds it, with what a worker may do and no more, and every other
// knows that it is over (B-087, B-089).
func TestProcessesOfOnePodRaceForItsLease(t *testing.T) {
	s := newSite(t)
	p := builders.MakePool("packers", s.namespace, "orders").Obj()
	p.UID, p.Generation = "", 0
	s.create(p)
	s.create(pool.Rights(p, "worker")...)
	transporttest.Eventually(t, "a worker may read Leases", func() bool {
		_, err := s.runner(s.one, "x").lease.Read(t.Context())
		return apierrors.IsNotFound(err)
	})
	const rounds, processes = 25, 4
	for round := range rounds {
		pod := s.pod(fmt.Sprintf("race-%d", round), "worker")
		if round%2 == 1 {
			s.runner(pod, "before").settle(t.Context(), 0)
		}
		var all sync.WaitGroup
		runners := make([]*runner, processes)
		for i := range runners {
			runners[i] = s.runner(pod, fmt.Sprint(i))
			all.Go(func() { runners[i].settle(t.Context(), 0) })
		}
		all.Wait()
		record, err := runners[0].lease.Read(t.Context())
		must(t, err)
		holders := 0
		for _, r := range runners {
			r.tenure.Poke(time.Second) // what a renewal finds
			r.settle(t.Context(), time.Second)
			switch {
			case r.tenure.Held() && r.holder == record.Holder:
				holders++
			case r.tenure.Held() || r.tenure.Over() == "":
				t.Errorf("round %d: %s neither holds the Lease, as %s does, nor knows that it is over", round, r.holder, record.Holder)
			}
		}
		if holders != 1 {
			t.Errorf("round %d: %d processes hold the Lease of %s", round, holders, record.Holder)
		}
		must(t, s.env.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	}
}
