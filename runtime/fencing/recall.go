package fencing

import (
	"errors"
	"io/fs"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/go-logr/logr"
)

// How long a change may be kept in memory alone. What is gone is written down sooner than what came.
const (
	recordNews      = 5 * time.Second
	recordDeletions = time.Second
	recordRetry     = 30 * time.Second
)

// recall is what an earlier process saw, until this one is told by the API server itself, and the file that it is kept in for the next.
type recall struct {
	record record
	flow   string
	clock  clock.PassiveClock
	log    logr.Logger

	mu    sync.Mutex
	pods  map[string]seenPod  // by name
	pools map[string]seenPool // by name
	due   time.Time           // when the snapshot is to be written; zero for no change
	kept  snapshot            // what the file holds
}

// load takes in the file. It returns an error where there is one that is no good.
func (r *recall) load() error {
	var kept snapshot
	err := r.record.read(&kept)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoRecord) {
		return nil
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = kept
	r.pods, r.pools = make(map[string]seenPod, len(kept.Pods)), make(map[string]seenPool, len(kept.Pools))
	for _, pod := range kept.Pods {
		r.pods[pod.Name] = pod
	}
	for _, pool := range kept.Pools {
		r.pools[pool.Name] = pool
	}
	return nil
}

// pod returns the pod of a name and UID that was last seen, nil for none.
func (r *recall) pod(name, uid string) *metav1.PartialObjectMetadata {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pod, ok := r.pods[name]; ok && pod.UID == types.UID(uid) {
		return pod.object()
	}
	return nil
}

// pool returns the pool of a name and UID that was last seen to pull from the flow, nil for none.
func (r *recall) pool(name string, uid types.UID) *unstructured.Unstructured {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pool, ok := r.pools[name]; ok && pool.UID == uid {
		return pool.object(r.flow)
	}
	return nil
}

// forgetPod drops a name, because the API server has said who bears it now.
func (r *recall) forgetPod(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, name)
}

func (r *recall) forgetPool(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pools, name)
}

// contradicted drops everything of an earlier process, because both watches are complete, and returns the UIDs of the pods among it that
// there are no more: nobody will report their deletion.
func (r *recall) contradicted(there map[types.UID]bool) (gone []types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pod := range r.kept.Pods {
		if r.pods != nil && !there[pod.UID] {
			gone = append(gone, pod.UID)
		}
	}
	r.pods, r.pools = nil, nil
	return gone
}

// changed says that the snapshot may differ from the file.
func (r *recall) changed(within time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.clock.Now().Add(within); r.due.IsZero() || at.Before(r.due) {
		r.due = at
	}
}

// isPending says whether a change is not written yet.
func (r *recall) isPending() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.due.IsZero()
}

// isDue says whether the snapshot is to be written.
func (r *recall) isDue() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.due.IsZero() && !r.clock.Now().Before(r.due)
}

// keep writes the snapshot, if it is news.
func (r *recall) keep(now snapshot) {
	r.mu.Lock()
	r.due = time.Time{}
	same := reflect.DeepEqual(now, r.kept)
	r.mu.Unlock()
	if same {
		return
	}
	if err := r.record.write(now); err != nil {
		if !errors.Is(err, errNoRecord) {
			r.log.Error(err, "The pods that were seen cannot be kept for a restart of this process while the API server is away")
		}
		r.changed(recordRetry)
		return
	}
	r.mu.Lock()
	r.kept = now
	r.mu.Unlock()
}
