package pool

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// LeaseState is what the Lease of a worker says of it, as this process has watched it.
type LeaseState string

const (
	// LeaseUnknown says nothing: there is none, or it does not say how long it is good for.
	LeaseUnknown LeaseState = ""
	// LeaseFresh was renewed, or seen for the first time, within the time that it is good for.
	LeaseFresh LeaseState = "Fresh"
	// LeaseExpired was not.
	LeaseExpired LeaseState = "Expired"
)

// leaseBook remembers since when this process has seen each Lease of a pool unchanged. It compares versions, and never the times in a
// Lease, which are those of another machine.
type leaseBook struct {
	seen map[types.UID]leaseSeen // by the UID of the pod
	// soundSince is since when more Leases are fresh than expired; zero while they are not.
	soundSince time.Time
}

type leaseSeen struct {
	version string
	since   time.Time
}

// look notes the version of a Lease, and says what to think of it.
func (b *leaseBook) look(now time.Time, pod types.UID, version string, good time.Duration) LeaseState {
	if version == "" || good <= 0 {
		return LeaseUnknown
	}
	seen, found := b.seen[pod]
	if !found || seen.version != version {
		seen = leaseSeen{version, now}
		b.seen[pod] = seen
	}
	if now.Sub(seen.since) > good {
		return LeaseExpired
	}
	return LeaseFresh
}

// judge says whether expired Leases tell of their workers. Many at once tell of the control plane instead, and for as long after that as a
// Lease is good for, nothing is told, so that every worker can renew its own.
func (b *leaseBook) judge(now time.Time, fresh, expired int, good time.Duration) bool {
	if expired > fresh {
		b.soundSince = time.Time{}
		return false
	}
	if b.soundSince.IsZero() {
		b.soundSince = now
	}
	return now.Sub(b.soundSince) > good
}

// keep drops what is known of other pods.
func (b *leaseBook) keep(pods map[types.UID]string) {
	for uid := range b.seen {
		if _, found := pods[uid]; !found {
			delete(b.seen, uid)
		}
	}
}

// observeLeases fills in what the Leases and the producers say of the workers.
func (r *Reconciler) observeLeases(ctx context.Context, o *observation, known *remembered) error {
	now, longest := r.Clock.Now(), time.Duration(0)
	bound, complete := o.bindings()
	for i := range o.snapshot.Workers {
		w := &o.snapshot.Workers[i]
		w.Unbound = complete && !bound[w.UID]
		if !w.live() {
			continue
		}
		var lease coordinationv1.Lease
		err := r.Client.Get(ctx, leaseKey(o.pool.Namespace, w.UID), &lease)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the Lease of worker %s: %w", w.Name, err)
		}
		good := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
		longest = max(longest, good)
		w.Lease = known.leases.look(now, w.pod.UID, lease.ResourceVersion, good)
	}
	fresh, expired := o.snapshot.leases()
	o.snapshot.LeasesTell = known.leases.judge(now, fresh, expired, longest)
	return nil
}

func leaseKey(namespace, podUID string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: runtimeconfig.WorkerLeaseName(podUID)}
}

// bindings are the UIDs of the pods that have a binding to any flow; complete says that every producer reports.
func (o *observation) bindings() (bound map[string]bool, complete bool) {
	bound = map[string]bool{}
	for _, s := range o.sources {
		if s.flow == nil {
			continue
		}
		if !s.stats.Connected {
			return nil, false
		}
		complete = true
		for _, worker := range s.stats.Stats.GetWorkers() {
			bound[worker.PodUid] = true
		}
	}
	return bound, complete
}

// stillExpired asks the API server itself whether a Lease is what the cache says. No answer is no.
func (r *Reconciler) stillExpired(ctx context.Context, namespace string, w Worker, known *remembered) bool {
	var lease coordinationv1.Lease
	if err := r.Live.Get(ctx, leaseKey(namespace, w.UID), &lease); err != nil {
		return false
	}
	return known.leases.seen[w.pod.UID].version == lease.ResourceVersion
}
