package podbuilder

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
)

// TestRevision is numaflow's lesson: an edit that is none of the template's must not replace a pod.
func TestRevision(t *testing.T) {
	base, err := WorkerRevision(makePool())
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		edit        func(*v1alpha1.WorkerPool)
		wantChanged bool
	}{
		"replicas":      {edit: func(p *v1alpha1.WorkerPool) { p.Spec.Replicas = ptr.To[int32](9) }},
		"window":        {edit: func(p *v1alpha1.WorkerPool) { p.Spec.FlowControlWindow = 7 }},
		"resend":        {edit: func(p *v1alpha1.WorkerPool) { p.Spec.ResendIntervalMilliseconds = 9 }},
		"concurrency":   {edit: func(p *v1alpha1.WorkerPool) { p.Spec.Concurrency = 9 }},
		"handler":       {edit: func(p *v1alpha1.WorkerPool) { p.Spec.Handler.HTTP = &v1alpha1.HTTPHandlerSpec{Port: 1} }},
		"drain":         {edit: func(p *v1alpha1.WorkerPool) { p.Spec.Drain.TimeoutSeconds = 9 }},
		"surge":         {edit: func(p *v1alpha1.WorkerPool) { p.Spec.Update.MaxSurge = ptr.To(intstr.FromInt32(9)) }},
		"paused":        {edit: func(p *v1alpha1.WorkerPool) { p.Spec.Paused = v1alpha1.SwitchEnabled }},
		"update policy": {edit: func(p *v1alpha1.WorkerPool) { p.Spec.Runtime.UpdatePolicy = v1alpha1.UpdateRolling }},
		"runtime":       {edit: func(p *v1alpha1.WorkerPool) { p.Spec.Runtime.Resources = corev1.ResourceRequirements{} }},
		"empty map":     {edit: func(p *v1alpha1.WorkerPool) { p.Spec.Template.Spec.NodeSelector = map[string]string{} }},
		"no resources": {edit: func(p *v1alpha1.WorkerPool) {
			p.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		}},
		"image":       {edit: func(p *v1alpha1.WorkerPool) { p.Spec.Template.Spec.Containers[0].Image = "x" }, wantChanged: true},
		"label":       {edit: func(p *v1alpha1.WorkerPool) { p.Spec.Template.Labels["team"] = "x" }, wantChanged: true},
		"flow":        {edit: func(p *v1alpha1.WorkerPool) { p.Spec.Flows = []string{"other"} }, wantChanged: true},
		"second flow": {edit: func(p *v1alpha1.WorkerPool) { p.Spec.Flows = append(p.Spec.Flows, "other") }, wantChanged: true},
		"dedup":       {edit: func(p *v1alpha1.WorkerPool) { p.Spec.Dedup.MaxProducers = ptr.To[int32](7) }},
		"request": {edit: func(p *v1alpha1.WorkerPool) {
			p.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
		}, wantChanged: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pool := makePool()
			tc.edit(pool)
			got, err := WorkerRevision(pool)
			if err != nil {
				t.Fatal(err)
			}
			if changed := got != base; changed != tc.wantChanged {
				t.Errorf("revision changed: %v, want %v", changed, tc.wantChanged)
			}
		})
	}
}

// flows is a set: writing it in another order replaces no worker.
func TestTheOrderOfFlowsIsNoRevision(t *testing.T) {
	pool, other := makePool(), makePool()
	pool.Spec.Flows, other.Spec.Flows = []string{"orders", "returns"}, []string{"returns", "orders"}
	one, err := WorkerRevision(pool)
	if err != nil {
		t.Fatal(err)
	}
	if two, err := WorkerRevision(other); err != nil || one != two {
		t.Errorf("revisions %s and %s, %v", one, two, err)
	}
}

func TestRuntimeRevision(t *testing.T) {
	runtime := Runtime{Image: image, Resources: resources()}
	base, err := runtime.Revision()
	if err != nil {
		t.Fatal(err)
	}
	runtime.Image = "workpulling/runtime:v0.2.0"
	if got, err := runtime.Revision(); err != nil || got == base {
		t.Errorf("revision %q, error %v: a new image must have a new revision", got, err)
	}
}
