package pool

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/workpulling/workpulling/internal/podhealth"
)

// memory is what this process knows of its pools and no object holds. All of it may be lost: a new leader asks again.
type memory struct {
	mu    sync.Mutex
	pools map[types.UID]*remembered
}

// remembered belongs to one pool. One reconcile at a time uses it.
type remembered struct {
	// trusted says that the cache has been compared with the API server, and every worker asked, since the process started and since
	// the last write with an unknown outcome.
	trusted bool
	// known are the UIDs and names of the pods seen last; one that is missing may have lost the label that the cache selects by.
	known map[types.UID]string
	// drainingSince is when this process first saw each pod drain.
	drainingSince map[types.UID]time.Time
	// leases is what was seen of the workers' Leases.
	leases leaseBook
	// refusal is why the last creation failed.
	refusal podhealth.Problem
}

func newMemory() *memory { return &memory{pools: map[types.UID]*remembered{}} }

func (m *memory) of(pool types.UID) *remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, found := m.pools[pool]
	if !found {
		r = &remembered{known: map[types.UID]string{}, drainingSince: map[types.UID]time.Time{}, leases: leaseBook{seen: map[types.UID]leaseSeen{}}}
		m.pools[pool] = r
	}
	return r
}

func (m *memory) forget(pool types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pools, pool)
}

// drainingFor returns how long the pod has been draining, and starts the count at the first call.
func (r *remembered) drainingFor(pod types.UID, now time.Time) time.Duration {
	since, found := r.drainingSince[pod]
	if !found {
		r.drainingSince[pod] = now
		return 0
	}
	return now.Sub(since)
}

// keep drops what is known of other pods.
func (r *remembered) keep(pods map[types.UID]string) {
	r.known = pods
	r.leases.keep(pods)
	for uid := range r.drainingSince {
		if _, found := pods[uid]; !found {
			delete(r.drainingSince, uid)
		}
	}
}
