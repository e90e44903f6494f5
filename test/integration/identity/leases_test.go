//go:build integration

package identity

import (
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// incarnation authenticates a worker and one of its processes, and returns why that was refused, "" if it was not.
func (s *site) incarnation(pod *corev1.Pod, boot string) transport.Label {
	s.t.Helper()
	worker, err := s.guard.AuthenticateWorker(s.t.Context(), s.token("worker", pod, runtimeconfig.TokenAudience))
	must(s.t, err)
	err = s.guard.AuthenticateIncarnation(s.t.Context(), worker, boot)
	if refusal, ok := errors.AsType[*transport.Refusal](err); ok {
		return refusal.Label
	}
	must(s.t, err)
	return ""
}

// leases: of the processes of a pod the one that holds its Lease may bind, from the first moment on; the one before is reported over, and so
// is one whose Lease is deleted (B-087, B-089).
func (s *site) leases(pool *v1alpha1.WorkerPool) {
	s.t.Helper()
	ctx := s.t.Context()
	pod := s.pod("leased", "worker", pool)
	marked := pod.DeepCopy()
	marked.Annotations = map[string]string{v1alpha1.AnnotationLease: v1alpha1.LeaseRequired}
	must(s.t, s.env.Client.Patch(ctx, marked, client.MergeFrom(pod)))
	transporttest.Eventually(s.t, "a worker without its Lease is to come again", func() bool { return s.incarnation(pod, "a") == transport.LabelLeaseMissing })

	lease := &coordinationv1.Lease{ObjectMeta: s.meta(runtimeconfig.WorkerLeaseName(string(pod.UID)))}
	lease.Labels = map[string]string{v1alpha1.LabelRole: v1alpha1.RoleWorker}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: ptr.To(string(pod.UID) + "/a"), LeaseTransitions: ptr.To[int32](1)}
	s.create(lease)
	for boot, want := range map[string]transport.Label{"a": "", "b": transport.LabelLeaseHeld} {
		if got := s.incarnation(pod, boot); got != want {
			s.t.Errorf("process %s beside the holder a: %q, want %q", boot, got, want)
		}
	}
	before := lease.DeepCopy()
	lease.Spec.HolderIdentity, lease.Spec.LeaseTransitions = ptr.To(string(pod.UID)+"/b"), ptr.To[int32](2)
	must(s.t, s.env.Client.Patch(ctx, lease, client.MergeFrom(before)))
	if got := s.incarnation(pod, "b"); got != "" {
		s.t.Errorf("the next process, a moment after it took the Lease: %s", got)
	}
	s.reportedOver(string(pod.UID) + "/a")
	if got := s.incarnation(pod, "a"); got != transport.LabelLeaseHeld {
		s.t.Errorf("the process before: %q", got)
	}
	must(s.t, s.env.Client.Delete(ctx, lease))
	s.reportedOver(string(pod.UID) + "/b")
	if got := s.incarnation(pod, "b"); got != transport.LabelLeaseDeleted {
		s.t.Errorf("the process whose Lease was deleted: %q", got)
	}
	if len(s.over) != 0 {
		s.t.Errorf("%s was reported over besides", <-s.over)
	}
}

func (s *site) reportedOver(want string) {
	s.t.Helper()
	select {
	case got := <-s.over:
		if got != want {
			s.t.Errorf("%s reported over, want %s", got, want)
		}
	case <-time.After(transporttest.Patience):
		s.t.Errorf("%s was not reported over", want)
	}
}
