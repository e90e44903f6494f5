package pool

import (
	"testing"

	"k8s.io/utils/clock"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/podbuilder"
	"github.com/workpulling/workpulling/test/builders"
)

// A worker of an earlier version, or one that lost a label, gets what it lacks; what the pool's flows are by now is no matter.
func TestMislabelled(t *testing.T) {
	pool := builders.MakePool("packers", "shop", "").UID("pool-uid").Flows("orders", "invoices").Obj()
	cases := map[string]struct {
		change func(labels, annotations map[string]string)
		edit   func(*v1alpha1.WorkerPool)
		want   bool
	}{
		"as it was made": {},
		"an earlier one": {change: func(l, _ map[string]string) { delete(l, v1alpha1.LabelPullsFrom("invoices")) }, want: true},
		"one from before there were several flows": {change: func(l, a map[string]string) {
			delete(a, v1alpha1.AnnotationFlows)
			delete(l, v1alpha1.LabelPullsFrom("orders"))
			delete(l, v1alpha1.LabelPullsFrom("invoices"))
		}},
		"without its role":       {change: func(l, _ map[string]string) { delete(l, v1alpha1.LabelRole) }, want: true},
		"of a pool since edited": {edit: func(p *v1alpha1.WorkerPool) { p.Spec.Flows = []string{"refunds"} }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod, err := podbuilder.WorkerPod(pool, "image", "packers-1")
			if err != nil {
				t.Fatal(err)
			}
			if tc.change != nil {
				tc.change(pod.Labels, pod.Annotations)
			}
			now := pool.DeepCopy()
			if tc.edit != nil {
				tc.edit(now)
			}
			r := &Reconciler{Clock: clock.RealClock{}}
			if got := r.worker(now, pod, &remembered{}).Mislabelled; got != tc.want {
				t.Errorf("mislabelled is %v, want %v; labels %v", got, tc.want, pod.Labels)
			}
		})
	}
}
