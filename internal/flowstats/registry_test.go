package flowstats

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
)

func TestPublish(t *testing.T) {
	flow := types.NamespacedName{Namespace: "media", Name: "thumbnails"}
	base := func() *protocolv1.FlowStats {
		return &protocolv1.FlowStats{PodUid: "p", State: "Running", QueueAvailable: true, BacklogJobs: 5, Workers: []*protocolv1.BoundWorker{{PodUid: "w", InFlight: 3}}}
	}
	cases := map[string]struct {
		change     func(*protocolv1.FlowStats)
		wantAtOnce bool
		wantLater  bool
	}{
		"nothing":         {change: func(*protocolv1.FlowStats) {}},
		"only totals":     {change: func(s *protocolv1.FlowStats) { s.AcceptedTotal, s.ConfirmedTotal = 9, 9 }},
		"in-flight moves": {change: func(s *protocolv1.FlowStats) { s.Workers[0].InFlight = 4 }},
		"backlog moves":   {change: func(s *protocolv1.FlowStats) { s.BacklogJobs = 6 }, wantLater: true},
		"emptied":         {change: func(s *protocolv1.FlowStats) { s.BacklogJobs = 0 }, wantAtOnce: true},
		"failed":          {change: func(s *protocolv1.FlowStats) { s.State, s.FailureStage = "Failed", "Store" }, wantAtOnce: true},
		"dead letter":     {change: func(s *protocolv1.FlowStats) { s.DeadLetters = 1 }, wantAtOnce: true},
		"worker gone":     {change: func(s *protocolv1.FlowStats) { s.Workers = nil }, wantAtOnce: true},
		"new config":      {change: func(s *protocolv1.FlowStats) { s.ConfigHash = "x" }, wantAtOnce: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Now())
			registry := NewRegistry(clock, 10*time.Second)
			published := 0
			registry.OnPublish(func(types.NamespacedName) { published++ })
			registry.Accept(flow, base())
			if published != 1 {
				t.Fatalf("the first report was published %d times", published)
			}
			clock.Step(time.Second)
			next := base()
			tc.change(next)
			registry.Accept(flow, next)
			if got := published == 2; got != tc.wantAtOnce {
				t.Errorf("published at once: %v, want %v", got, tc.wantAtOnce)
			}
			clock.Step(10 * time.Second)
			registry.flush()
			if got := published == 2; got != (tc.wantAtOnce || tc.wantLater) {
				t.Errorf("published in the end: %v, want %v", got, tc.wantAtOnce || tc.wantLater)
			}
		})
	}
}

func TestDisconnectOfAnOldPodIsIgnored(t *testing.T) {
	flow := types.NamespacedName{Namespace: "media", Name: "thumbnails"}
	registry := NewRegistry(clocktesting.NewFakeClock(time.Now()), time.Second)
	registry.Accept(flow, &protocolv1.FlowStats{PodUid: "new"})
	registry.Disconnect(flow, "old")
	if got, _ := registry.Published(flow); !got.Connected {
		t.Error("the end of an old pod's stream disconnected the new pod")
	}
	registry.Disconnect(flow, "new")
	if got, _ := registry.Published(flow); got.Connected {
		t.Error("the flow counts as connected after its stream ended")
	}
	registry.Forget(flow)
	if _, found := registry.Published(flow); found {
		t.Error("a forgotten flow still has numbers")
	}
}

// What a pod held at its end counts, also where that had not been published yet when the next pod reported.
func TestTheLastWordOfTheFormerPodIsKept(t *testing.T) {
	flow := types.NamespacedName{Namespace: "media", Name: "thumbnails"}
	registry := NewRegistry(clocktesting.NewFakeClock(time.Now()), time.Hour)
	registry.Accept(flow, &protocolv1.FlowStats{PodUid: "old", BacklogJobs: 1})
	registry.Accept(flow, &protocolv1.FlowStats{PodUid: "old", BacklogJobs: 7})
	if got, _ := registry.Published(flow); got.Former != nil || got.Stats.BacklogJobs != 1 {
		t.Fatalf("published %+v", got)
	}
	for _, backlog := range []int64{0, 2} {
		registry.Accept(flow, &protocolv1.FlowStats{PodUid: "new", BacklogJobs: backlog})
		if got, _ := registry.Published(flow); got.Stats.PodUid != "new" || got.Former.GetPodUid() != "old" || got.Former.BacklogJobs != 7 {
			t.Errorf("published %+v; want the new pod, and the old one with 7 jobs", got)
		}
	}
}

// The end of a member that another one has fenced is none of the flow.
func TestAFencedMemberDoesNotFailTheFlow(t *testing.T) {
	flow := types.NamespacedName{Namespace: "media", Name: "thumbnails"}
	registry := NewRegistry(clocktesting.NewFakeClock(time.Now()), time.Second)
	registry.Accept(flow, &protocolv1.FlowStats{PodUid: "new", Epoch: 8, State: "Running"})
	registry.Accept(flow, &protocolv1.FlowStats{PodUid: "old", Epoch: 7, State: "Failed", FailureStage: "Store", FailureCode: "fenced"})
	if got, _ := registry.Live(flow); got.Stats.PodUid != "new" || got.Stats.State != "Running" {
		t.Errorf("the flow is %s by the word of %s", got.Stats.State, got.Stats.PodUid)
	}
	registry.Accept(flow, &protocolv1.FlowStats{PodUid: "new", Epoch: 8, State: "Failed", FailureStage: "Store", FailureCode: "conflict"})
	if got, _ := registry.Live(flow); got.Stats.State != "Failed" {
		t.Errorf("the newest member failed and the flow is %s", got.Stats.State)
	}
	registry.Accept(flow, &protocolv1.FlowStats{PodUid: "heir", State: "Failed", FailureStage: "Store", FailureCode: "conflict"})
	if got, _ := registry.Live(flow); got.Stats.PodUid != "heir" {
		t.Error("a pod that takes up the failure is not heard")
	}
	registry.Accept(flow, &protocolv1.FlowStats{PodUid: "next", State: "Loading"})
	if got, _ := registry.Live(flow); got.Stats.PodUid != "next" {
		t.Error("a pod that starts is not heard")
	}
}

// Probes of a paused revision are no news.
func TestProbesAreNoNews(t *testing.T) {
	flow := types.NamespacedName{Namespace: "media", Name: "thumbnails"}
	clock := clocktesting.NewFakeClock(time.Now())
	registry := NewRegistry(clock, time.Second)
	published := 0
	registry.OnPublish(func(types.NamespacedName) { published++ })
	for n := range int64(5) {
		registry.Accept(flow, &protocolv1.FlowStats{PodUid: "p", PausedRevisions: []*protocolv1.PausedRevision{{Pool: "a", Revision: "r", Failures: 10 + n}}})
		clock.Step(time.Minute)
		registry.flush()
	}
	if published != 1 {
		t.Errorf("published %d times", published)
	}
}

// Of several producers that share a queue, the one with the highest epoch speaks for the flow.
func TestTheHighestEpochSpeaksForTheFlow(t *testing.T) {
	flow := types.NamespacedName{Namespace: "media", Name: "thumbnails"}
	registry := NewRegistry(clocktesting.NewFakeClock(time.Now()), 10*time.Second)
	report := func(pod, state string, epoch uint64) {
		registry.Accept(flow, &protocolv1.FlowStats{PodUid: pod, State: state, Epoch: epoch, QueueAvailable: true, Shared: true})
	}
	check := func(when, speaks string, connected bool, standbys ...string) {
		t.Helper()
		got, _ := registry.Published(flow)
		var pods []string
		for _, s := range got.Standbys {
			pods = append(pods, s.PodUid)
		}
		if got.Stats.GetPodUid() != speaks || got.Connected != connected || !slices.Equal(pods, standbys) {
			t.Errorf("%s: %s speaks (connected %v) and %v stand by; want %s (%v), %v", when, got.Stats.GetPodUid(), got.Connected, pods, speaks, connected, standbys)
		}
	}
	report("b", "Standby", 0)
	check("before anyone has the queue", "", false, "b")
	report("a", "Running", 1)
	report("c", "Standby", 1)
	check("with an owner", "a", true, "b", "c")
	report("b", "Loading", 0)
	check("while another loads", "a", true, "c")
	report("b", "Running", 2)
	check("after a takeover", "b", true, "c")
	report("a", "Running", 1)
	check("as long as the old owner does not know", "b", true, "c")
	report("a", "Standby", 2)
	check("when it does", "b", true, "a", "c")
	registry.Disconnect(flow, "c")
	check("when a standby goes", "b", true, "a")
	report("b", "Standby", 2)
	check("when the owner gives up", "b", false, "a", "b")
	report("a", "Running", 3)
	check("when it is handed over", "a", true, "b")
	registry.Disconnect(flow, "a")
	check("when the owner dies", "a", false, "b")
}
