package pool

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/podbuilder"
	"github.com/workpulling/workpulling/test/builders"
)

func TestRefused(t *testing.T) {
	cases := map[string]struct {
		err         error
		wantReason  string
		wantText    string
		wantTrusted bool
	}{
		"a template without a pod": {
			err:        &podbuilder.TemplateError{Container: "app", Problem: "the hook's port has no number"},
			wantReason: v1alpha1.ReasonTemplateInvalid, wantText: "container app", wantTrusted: true,
		},
		"a broken connection": {err: errors.New("connection reset"), wantReason: v1alpha1.ReasonReconcileFailed, wantText: "connection reset"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Now())
			r := &Reconciler{Clock: clock, BackOff: flowcontrol.NewFakeBackOff(time.Second, time.Minute, clock)}
			pool := builders.MakePool("packers", "shop", "orders").UID("pool-uid").Obj()
			known, out := &remembered{trusted: true}, &outcome{}
			for range 2 {
				if err := r.refused(t.Context(), pool, tc.err, known, out); err != nil {
					t.Fatal(err)
				}
			}
			if known.refusal.Reason != tc.wantReason || !strings.Contains(known.refusal.Message, tc.wantText) {
				t.Errorf("refusal %+v, want %s with %q", known.refusal, tc.wantReason, tc.wantText)
			}
			if known.trusted != tc.wantTrusted {
				t.Errorf("the cache is trusted: %v, want %v", known.trusted, tc.wantTrusted)
			}
			if len(out.events) != 1 {
				t.Errorf("two refusals for one reason made %d Events", len(out.events))
			}
			if r.BackOff.Get(string(pool.UID)) == 0 {
				t.Error("the next try does not wait")
			}
		})
	}
}

// A rollout that cannot make its first new worker leaves the pool ready, and must not be tried again at once for that.
func TestHealthy(t *testing.T) {
	for name, tc := range map[string]struct {
		snapshot Snapshot
		want     bool
	}{
		"at rest": {snapshotOf(1, make1("a")), true},
		"rolling": {snapshotOf(1, make1("a").old()), false},
		"short":   {snapshotOf(2, make1("a")), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := observed(tc.snapshot).healthy(); got != tc.want {
				t.Errorf("healthy = %v, want %v", got, tc.want)
			}
		})
	}
}
