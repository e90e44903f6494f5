package fencing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/workpulling/workpulling/api/v1alpha1"
)

// LeaseRecord is what a Lease said. Version changes with every write; two records are compared by it and never by their times.
type LeaseRecord struct {
	// UID tells a Lease from one of the same name that was deleted.
	UID         string
	Holder      string
	Version     string
	Transitions int32
	// Halted is what an owner of the queue that failed for good left for the next one, empty if none did.
	Halted string
}

// Lease is one Lease: that of a flow, which the operator makes, or that of a worker's pod. Reading and writing it needs get and patch on
// this one object.
type Lease struct {
	client          rest.Interface
	namespace, name string
	clock           clock.PassiveClock
}

// leaseTimeout bounds one call: the API server is asked often and is not waited for.
const leaseTimeout = 2 * time.Second

// NewLease returns the Lease of this name at one API server.
func NewLease(config *rest.Config, namespace, name string, c clock.PassiveClock) (*Lease, error) {
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, metav1.Unversioned)
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 10, 20
	config.APIPath, config.GroupVersion = "/apis", &coordinationv1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the client of the Lease: %w", err)
	}
	return &Lease{client: client, namespace: namespace, name: name, clock: c}, nil
}

// NewLeaseFromFiles uses the token and CA in a directory such as a pod's ServiceAccount volume.
func NewLeaseFromFiles(dir, namespace, name string) (*Lease, error) {
	config, err := inPod(dir)
	if err != nil {
		return nil, err
	}
	return NewLease(config, namespace, name, clock.RealClock{})
}

// Read returns what the Lease says.
func (l *Lease) Read(ctx context.Context) (LeaseRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	var lease coordinationv1.Lease
	if err := l.client.Get().Namespace(l.namespace).Resource("leases").Name(l.name).Do(ctx).Into(&lease); err != nil {
		return LeaseRecord{}, fmt.Errorf("reading the Lease: %w", err)
	}
	return recordOf(&lease), nil
}

// Hold acquires or renews the Lease for holder, if nobody has written it since seen was read; otherwise it fails.
func (l *Lease) Hold(ctx context.Context, holder string, duration time.Duration, seen LeaseRecord) (LeaseRecord, error) {
	now := metav1.NewMicroTime(l.clock.Now())
	spec := map[string]any{"holderIdentity": holder, "renewTime": now, "leaseDurationSeconds": max(int32(duration/time.Second), 1)}
	if seen.Holder != holder {
		spec["acquireTime"], spec["leaseTransitions"] = now, seen.Transitions+1
	}
	return l.write(ctx, map[string]any{}, spec, seen)
}

// Release lets the Lease go, so that another may acquire it at once.
func (l *Lease) Release(ctx context.Context, seen LeaseRecord) (LeaseRecord, error) {
	return l.write(ctx, map[string]any{}, map[string]any{"holderIdentity": ""}, seen)
}

// Halt leaves word for whoever acquires the Lease next; an empty one takes it away.
func (l *Lease) Halt(ctx context.Context, word string, seen LeaseRecord) (LeaseRecord, error) {
	annotation := map[string]any{v1alpha1.AnnotationHalted: nil}
	if word != "" {
		annotation[v1alpha1.AnnotationHalted] = word
	}
	return l.write(ctx, map[string]any{"annotations": annotation}, nil, seen)
}

// write patches the Lease under the version that was read, which makes it a compare-and-swap.
func (l *Lease) write(ctx context.Context, metadata, spec map[string]any, seen LeaseRecord) (LeaseRecord, error) {
	if seen.Version == "" {
		return LeaseRecord{}, errors.New("the Lease was not read yet")
	}
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	metadata["resourceVersion"] = seen.Version
	change := map[string]any{"metadata": metadata}
	if spec != nil {
		change["spec"] = spec
	}
	body, err := json.Marshal(change)
	if err != nil {
		return LeaseRecord{}, err
	}
	var lease coordinationv1.Lease
	err = l.client.Patch(types.MergePatchType).Namespace(l.namespace).Resource("leases").Name(l.name).Body(body).Do(ctx).Into(&lease)
	if err != nil {
		return LeaseRecord{}, fmt.Errorf("writing the Lease: %w", err)
	}
	return recordOf(&lease), nil
}

func recordOf(lease *coordinationv1.Lease) LeaseRecord {
	record := LeaseRecord{UID: string(lease.UID), Version: lease.ResourceVersion, Halted: lease.Annotations[v1alpha1.AnnotationHalted]}
	if lease.Spec.HolderIdentity != nil {
		record.Holder = *lease.Spec.HolderIdentity
	}
	if lease.Spec.LeaseTransitions != nil {
		record.Transitions = *lease.Spec.LeaseTransitions
	}
	return record
}
