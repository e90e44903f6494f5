package fencing_test

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/transport"
)

// boot says whether a process of the pod "worker" may bind.
func (p *process) boot(nonce string) transport.Label {
	p.pass(time.Second) // the silence of a connection that was cut is not for ever
	if refused := p.label(p.token("worker")); refused != "" {
		return refused
	}
	err := p.guard.AuthenticateIncarnation(p.t.Context(), delivery.Worker{PodUID: "worker-uid", PodName: "worker", Pool: "pool"}, nonce)
	if refusal, ok := errors.AsType[*transport.Refusal](err); ok {
		return refusal.Label
	}
	return ""
}

func workerLease(uid, holder string, transitions int64) []*unstructured.Unstructured {
	lease := leaseObject(uid, holder, transitions)
	lease.SetName("workpulling-worker-uid")
	lease.SetResourceVersion("1")
	return []*unstructured.Unstructured{lease}
}

// A producer that starts while the API server is away knows which process of a pod held its Lease, and which one did before (B-089, B-252).
func TestTheHolderOfBeforeInAnOutage(t *testing.T) {
	for name, c := range map[string]struct {
		after []*unstructured.Unstructured // the Leases when the API server is back
		over  string
	}{
		"nothing happened meanwhile":         {workerLease("l", "worker-uid/b", 2), ""},
		"the next process holds the Lease":   {workerLease("l", "worker-uid/c", 3), "worker-uid/b"},
		"the Lease was deleted meanwhile":    {nil, "worker-uid/b"},
		"the cluster was restored to before": {workerLease("l", "worker-uid/a", 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, clock, dir := newServer(t), clocktesting.NewFakePassiveClock(time.Now()), t.TempDir()
			s.now, s.leases = clock.Now, workerLease("l", "worker-uid/a", 1)
			s.pods[0].Annotations = map[string]string{"workpulling.dev/lease": "Required"}
			p := s.start(dir, clock)
			p.eventually("the first process may bind", func() bool { return p.boot("a") == "" })
			s.set(func(s *server) { s.leases = workerLease("l", "worker-uid/b", 2) })
			p.eventually("the second one may", func() bool { return p.boot("b") == "" })
			if over := <-p.over; over != "worker-uid/a" {
				t.Errorf("%s is over", over)
			}
			p.pass(time.Minute)
			p.stop() // which writes what is due

			s.set(func(s *server) { s.cut = true })
			p = s.start(dir, clock)
			for nonce, want := range map[string]transport.Label{"a": transport.LabelLeaseHeld, "b": "", "new": ""} {
				if got := p.boot(nonce); got != want {
					t.Errorf("process %s after a restart in an outage: %q, want %q", nonce, got, want)
				}
			}
			s.set(func(s *server) { s.cut, s.leases = false, c.after })
			if c.over == "" {
				p.eventually("the API server has told", func() bool { return s.count(pathLeases) > 3 && p.guard.LeasesSeen() })
				if len(p.over) != 0 {
					t.Errorf("%s is over", <-p.over)
				}
				if got := p.boot("b"); got != "" {
					t.Errorf("the holder after the outage: %s", got)
				}
				return
			}
			select {
			case over := <-p.over:
				if over != c.over {
					t.Errorf("%s is over, want %s", over, c.over)
				}
			case <-time.After(30 * time.Second):
				t.Errorf("%s is not over", c.over)
			}
		})
	}
}
