package fencing

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// HolderOf is how an incarnation of a worker calls itself in the Lease of its pod.
func HolderOf(who protocol.Incarnation) string { return who.PodUID + "/" + who.BootNonce }

// bootOf returns which process of a pod a Lease says holds it; false where the holder is none of that pod. A name that no process could
// register under is none: it is kept for as long as the pod, and a Lease may hold a megabyte of it.
func bootOf(holder, podUID string) (string, bool) {
	uid, boot, found := strings.Cut(holder, "/")
	return boot, found && uid == podUID && protocol.CheckID("boot nonce", boot) == nil
}

// WorkerPod is the pod whose Lease a worker holds.
type WorkerPod struct{ Namespace, Pool, Name, UID string }

// WorkerLease is the Lease of a worker's pod, which the worker makes itself. It goes with the pod. Beyond what a Lease needs, it needs
// create, for which the API server knows no name: what a worker may not do with that right, an admission policy refuses.
type WorkerLease struct {
	*Lease
	pod WorkerPod
}

// NewWorkerLease returns the Lease of a pod at one API server.
func NewWorkerLease(config *rest.Config, pod WorkerPod, c clock.PassiveClock) (*WorkerLease, error) {
	lease, err := NewLease(config, pod.Namespace, runtimeconfig.WorkerLeaseName(pod.UID), c)
	if err != nil {
		return nil, err
	}
	return &WorkerLease{Lease: lease, pod: pod}, nil
}

// NewWorkerLeaseFromFiles uses the token and CA in a directory such as a pod's ServiceAccount volume.
func NewWorkerLeaseFromFiles(dir string, pod WorkerPod) (*WorkerLease, error) {
	config, err := inPod(dir)
	if err != nil {
		return nil, err
	}
	return NewWorkerLease(config, pod, clock.RealClock{})
}

// Create makes the Lease, held by holder. It fails where there is one.
func (l *WorkerLease) Create(ctx context.Context, holder string, duration time.Duration) (LeaseRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	now := metav1.NewMicroTime(l.clock.Now())
	wanted := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: l.namespace, Name: l.name,
			Labels: map[string]string{
				v1alpha1.LabelRole: v1alpha1.RoleWorker, v1alpha1.LabelPool: l.pod.Pool, runtimeconfig.LabelManagedBy: runtimeconfig.ManagedByWorker,
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: l.pod.Name, UID: types.UID(l.pod.UID)}},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, AcquireTime: &now, RenewTime: &now, LeaseTransitions: ptr.To[int32](1),
			LeaseDurationSeconds: ptr.To(max(int32(duration/time.Second), 1)),
		},
	}
	var lease coordinationv1.Lease
	if err := l.client.Post().Namespace(l.namespace).Resource("leases").Body(wanted).Do(ctx).Into(&lease); err != nil {
		return LeaseRecord{}, fmt.Errorf("making the Lease: %w", err)
	}
	return recordOf(&lease), nil
}
