package flowstats

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// Snapshot is the last that is known of one flow. It is not to be changed by a reader.
type Snapshot struct {
	Stats *protocolv1.FlowStats
	// Former is the last report of the pod that reported before the one of Stats; nil where this process knows of none.
	Former *protocolv1.FlowStats
	// Standbys are the last reports of the connected members that do not have the queue, by the UIDs of their pods.
	Standbys []*protocolv1.FlowStats
	// Connected says whether the producer's stream is open.
	Connected bool
	// At is when the report came in.
	At time.Time
}

// Registry holds the last report of each flow.
type Registry struct {
	clock    clock.WithTicker
	interval time.Duration

	mu     sync.Mutex
	flows  map[types.NamespacedName]*entry
	listen []func(types.NamespacedName)
}

type entry struct {
	live      Snapshot
	published Snapshot
	writtenAt time.Time
}

// NewRegistry returns a Registry that publishes a mere change of numbers at most once an interval.
func NewRegistry(c clock.WithTicker, interval time.Duration) *Registry {
	return &Registry{clock: c, interval: interval, flows: map[types.NamespacedName]*entry{}}
}

// OnPublish calls f, which must not block, with each flow whose published snapshot changes. Call it before Start.
func (r *Registry) OnPublish(f func(types.NamespacedName)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listen = append(r.listen, f)
}

// Published returns what the status of flow is to be made from.
func (r *Registry) Published(flow types.NamespacedName) (Snapshot, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, found := r.flows[flow]
	if !found {
		return Snapshot{}, false
	}
	return e.published, true
}

// Live returns the newest report of flow, for decisions that need the moment.
func (r *Registry) Live(flow types.NamespacedName) (Snapshot, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, found := r.flows[flow]
	if !found {
		return Snapshot{}, false
	}
	return e.live, true
}

// Accept takes a report in.
func (r *Registry) Accept(flow types.NamespacedName, stats *protocolv1.FlowStats) {
	r.update(flow, func(e *entry) {
		if stats.State == runtimeconfig.StateStandby {
			e.standsBy(stats)
			return
		}
		e.leaves(stats.PodUid)
		if before := e.live.Stats; e.outdated(stats) || before != nil && superseded(before, stats) {
			return
		}
		former := e.live.Former
		if e.live.Stats != nil && e.live.Stats.PodUid != stats.PodUid {
			former = e.live.Stats
		}
		e.live = Snapshot{Stats: stats, Former: former, Standbys: e.live.Standbys, Connected: true, At: r.clock.Now()}
	})
}

// superseded says that a report is the end of a member that another one has fenced: the flow fails only with who holds the newest epoch.
// One without an epoch is a pod that takes up the failure of the one before.
func superseded(newest, stats *protocolv1.FlowStats) bool {
	return stats.FlowUid == newest.FlowUid && stats.PodUid != newest.PodUid && stats.State == "Failed" &&
		stats.Epoch > 0 && stats.Epoch < newest.Epoch
}

// standsBy takes the report of a member that does not have the queue, or not any more.
func (e *entry) standsBy(stats *protocolv1.FlowStats) {
	e.leaves(stats.PodUid)
	e.live.Standbys = append(e.live.Standbys, stats)
	slices.SortFunc(e.live.Standbys, func(a, b *protocolv1.FlowStats) int { return strings.Compare(a.PodUid, b.PodUid) })
	if e.live.Stats.GetPodUid() == stats.PodUid {
		e.live.Connected = false
	}
}

// leaves takes a member out of those that stand by. The slice is never changed in place, for snapshots share it.
func (e *entry) leaves(podUID string) {
	e.live.Standbys = slices.DeleteFunc(slices.Clone(e.live.Standbys), func(s *protocolv1.FlowStats) bool { return s.PodUid == podUID })
}

// outdated says that a report comes from a member that does not know yet that another has the queue, or that is only about to take it.
func (e *entry) outdated(stats *protocolv1.FlowStats) bool {
	return stats.Shared && e.live.Connected && e.live.Stats.GetPodUid() != stats.PodUid && e.live.Stats.GetEpoch() > stats.Epoch
}

// Disconnect notes that the stream of the pod that reported last is closed. A newer pod's stream is not touched.
func (r *Registry) Disconnect(flow types.NamespacedName, podUID string) {
	r.mu.Lock()
	_, found := r.flows[flow]
	r.mu.Unlock()
	if !found {
		return
	}
	r.update(flow, func(e *entry) {
		e.leaves(podUID)
		if e.live.Stats.GetPodUid() == podUID {
			e.live.Connected = false
		}
	})
}

// Forget drops a flow that is gone.
func (r *Registry) Forget(flow types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.flows, flow)
}

func (r *Registry) update(flow types.NamespacedName, change func(*entry)) {
	r.mu.Lock()
	e, found := r.flows[flow]
	if !found {
		e = &entry{}
		r.flows[flow] = e
	}
	change(e)
	due := r.publish(e, r.clock.Now())
	listeners := r.listen
	r.mu.Unlock()
	if due {
		tell(listeners, flow)
	}
}

// publish takes the live snapshot over where it is time or urgent, and says whether it did.
func (r *Registry) publish(e *entry, now time.Time) bool {
	if !differs(e.published, e.live) || !urgent(e.published, e.live) && now.Sub(e.writtenAt) < r.interval {
		return false
	}
	e.published, e.writtenAt = e.live, now
	return true
}

// Start publishes what had to wait, until ctx ends.
func (r *Registry) Start(ctx context.Context) error {
	ticker := r.clock.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			r.flush()
		}
	}
}

func (r *Registry) flush() {
	now := r.clock.Now()
	var due []types.NamespacedName
	r.mu.Lock()
	for flow, e := range r.flows {
		if r.publish(e, now) {
			due = append(due, flow)
		}
	}
	listeners := r.listen
	r.mu.Unlock()
	for _, flow := range due {
		tell(listeners, flow)
	}
}

func tell(listeners []func(types.NamespacedName), flow types.NamespacedName) {
	for _, f := range listeners {
		f(flow)
	}
}

// differs compares what a status is made from. Counters that only rise and ages are in the metrics, not in a status.
func differs(a, b Snapshot) bool {
	if a.Connected != b.Connected || (a.Stats == nil) != (b.Stats == nil) || !sameStandbys(a, b) {
		return true
	}
	if a.Stats == nil {
		return false
	}
	return !proto.Equal(visible(a.Stats), visible(b.Stats))
}

func visible(stats *protocolv1.FlowStats) *protocolv1.FlowStats {
	v, _ := proto.Clone(stats).(*protocolv1.FlowStats)
	v.AcceptedTotal, v.ConfirmedTotal, v.RedeliveredTotal = 0, 0, 0
	v.OldestBacklogAgeSeconds, v.FreeDemand, v.BacklogBytes, v.CreditWithheld = 0, 0, 0, false
	for _, p := range v.PausedRevisions {
		p.Failures, p.Reason = 0, ""
	}
	for _, w := range v.Workers {
		w.InFlight, w.Started = min(w.InFlight, 1), min(w.Started, 1)
	}
	return v
}

// sameStandbys compares what a status says of those that stand by.
func sameStandbys(a, b Snapshot) bool {
	return slices.EqualFunc(a.Standbys, b.Standbys, func(x, y *protocolv1.FlowStats) bool {
		return x.PodUid == y.PodUid && x.QueueAvailable == y.QueueAvailable && x.QueueCode == y.QueueCode && x.FailureStage == y.FailureStage && sameFenced(x, y)
	})
}

// sameFenced compares which writers a member says were fenced.
func sameFenced(x, y *protocolv1.FlowStats) bool {
	return slices.EqualFunc(x.Fenced, y.Fenced, func(a, b *protocolv1.FencedIncarnation) bool { return a.Epoch == b.Epoch })
}

func urgent(a, b Snapshot) bool {
	if !sameStandbys(a, b) {
		return true
	}
	if a.Stats == nil || b.Stats == nil || a.Connected != b.Connected {
		return true
	}
	x, y := a.Stats, b.Stats
	return x.PodUid != y.PodUid || x.State != y.State || x.FailureStage != y.FailureStage || x.FailureReason != y.FailureReason ||
		x.QueueAvailable != y.QueueAvailable || x.QueueCode != y.QueueCode || x.BacklogFull != y.BacklogFull || x.ConfigHash != y.ConfigHash || !sameFenced(x, y) ||
		(x.DeadLetters == 0) != (y.DeadLetters == 0) || empty(x) != empty(y) || !slices.Equal(podUIDs(x), podUIDs(y))
}

func empty(s *protocolv1.FlowStats) bool { return s.BacklogJobs == 0 && s.InFlight == 0 }

func podUIDs(s *protocolv1.FlowStats) []string {
	uids := make([]string, 0, len(s.Workers))
	for _, w := range s.Workers {
		uids = append(uids, w.PodUid)
	}
	slices.Sort(uids)
	return uids
}
