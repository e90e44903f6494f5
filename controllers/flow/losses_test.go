package flow

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
)

func TestLostJobs(t *testing.T) {
	// look is one look at the flow: the pod of the cluster, and what is published of the reports.
	type look struct {
		pod    string
		stats  *protocolv1.FlowStats
		former *protocolv1.FlowStats
		silent bool
		want   int64
	}
	holds := func(pod string, backlog, inFlight, dead int64) *protocolv1.FlowStats {
		return &protocolv1.FlowStats{PodUid: pod, State: "Running", QueueAvailable: true, BacklogJobs: backlog, InFlight: inFlight, DeadLetters: dead}
	}
	lost := func(s *protocolv1.FlowStats, n uint64) *protocolv1.FlowStats { s.LostVolatileTotal = n; return s }
	loading := func(s *protocolv1.FlowStats) *protocolv1.FlowStats { s.State = "Loading"; return s }
	cases := map[string][]look{
		"nothing was lost":              {{pod: "a", stats: holds("a", 5, 2, 1), want: 0}, {pod: "a", stats: holds("a", 0, 0, 0), want: 0}, {pod: "b", stats: holds("b", 0, 0, 0), want: 0}},
		"the pod was replaced":          {{pod: "a", stats: holds("a", 5, 2, 1), want: 0}, {pod: "b", stats: holds("b", 0, 0, 0), want: 8}, {pod: "b", stats: holds("b", 3, 0, 0), want: 8}},
		"the new pod is still loading":  {{pod: "a", stats: holds("a", 5, 0, 0), want: 0}, {pod: "b", stats: loading(holds("b", 0, 0, 0)), want: 5}, {pod: "b", stats: holds("b", 0, 0, 0), want: 5}},
		"its container restarted":       {{pod: "a", stats: holds("a", 5, 0, 0), want: 0}, {pod: "a", stats: lost(holds("a", 0, 0, 0), 6), want: 6}, {pod: "a", stats: lost(holds("a", 2, 0, 0), 6), want: 6}},
		"first the one, then the other": {{pod: "a", stats: holds("a", 5, 0, 0), want: 0}, {pod: "a", stats: lost(holds("a", 2, 0, 0), 5), want: 5}, {pod: "b", stats: holds("b", 0, 0, 0), want: 7}, {pod: "b", stats: lost(holds("b", 0, 0, 0), 4), want: 11}},
		"it restarted and was replaced before it said so": {
			{pod: "a", stats: holds("a", 5, 0, 0), want: 0}, {pod: "a", stats: loading(holds("a", 0, 0, 0)), want: 0}, {pod: "b", stats: holds("b", 0, 0, 0), want: 5},
		},
		"a count that falls back":           {{pod: "a", stats: lost(holds("a", 0, 0, 0), 9), want: 9}, {pod: "a", stats: holds("a", 0, 0, 0), want: 9}, {pod: "a", stats: lost(holds("a", 0, 0, 0), 9), want: 9}},
		"the newest numbers were not shown": {{pod: "a", stats: holds("a", 5, 0, 0), want: 0}, {pod: "b", stats: holds("b", 0, 0, 0), former: holds("a", 7, 0, 0), want: 7}},
		"an unrelated former pod":           {{pod: "b", stats: holds("b", 5, 0, 0), want: 0}, {pod: "c", stats: holds("c", 0, 0, 0), former: holds("a", 70, 0, 0), want: 5}},
		"the last word, after the pod":      {{pod: "a", stats: holds("a", 5, 0, 0), want: 0}, {pod: "b", stats: holds("a", 6, 0, 0), want: 0}, {pod: "b", stats: holds("b", 0, 0, 0), want: 6}},
		"a ghost that goes on reporting":    {{pod: "a", stats: holds("a", 5, 0, 0), want: 0}, {pod: "b", stats: holds("b", 0, 0, 0), want: 5}, {pod: "b", stats: holds("a", 9, 0, 0), want: 5}, {pod: "b", stats: holds("b", 0, 0, 0), want: 5}},
		"a long silence":                    {{pod: "a", stats: holds("a", 5, 0, 0), want: 0}, {pod: "b", stats: holds("a", 5, 0, 0), silent: true, want: 0}, {pod: "b", stats: holds("b", 0, 0, 0), want: 5}, {pod: "b", stats: holds("b", 0, 0, 0), silent: true, want: 5}},
	}
	for name, looks := range cases {
		t.Run(name, func(t *testing.T) {
			o := serving()
			for i, look := range looks {
				o.pod.UID = types.UID(look.pod)
				o.stats.Stats, o.stats.Former, o.silent = look.stats, look.former, look.silent
				o.stats.Connected = look.stats.PodUid == look.pod && !look.silent
				before := o.flow.Status
				o.flow.Status, _ = makeStatus(o, plan{}, applied{})
				if got := o.flow.Status.LostJobs; got == nil || *got != look.want {
					t.Fatalf("look %d: %v jobs lost, want %d; account %+v", i, ptr.Deref(got, -1), look.want, o.flow.Status.Memory)
				}
				if told := lossNote(&before, &o.flow.Status) != ""; told != (look.want > ptr.Deref(before.LostJobs, 0)) {
					t.Errorf("look %d: told of a loss: %v", i, told)
				}
				// The next look may be another process's, which knows the status alone.
				again, _ := makeStatus(o, plan{}, applied{})
				if *again.LostJobs != look.want {
					t.Errorf("look %d, repeated: %d jobs lost, want %d", i, *again.LostJobs, look.want)
				}
			}
		})
	}
}

func TestLossNote(t *testing.T) {
	five, eight := &v1alpha1.WorkPullingFlowStatus{LostJobs: ptr.To[int64](5)}, &v1alpha1.WorkPullingFlowStatus{LostJobs: ptr.To[int64](8)}
	if got := lossNote(five, eight); !strings.Contains(got, "lost 3 jobs") {
		t.Errorf("the note says %q", got)
	}
	if got := lossNote(eight, eight); got != "" {
		t.Errorf("without a loss the note says %q", got)
	}
}

func TestALocalQueueHasNoAccountOfLosses(t *testing.T) {
	o := serving()
	o.flow.Spec.Queue.Type = v1alpha1.QueueLocal
	o.stats.Stats.PodUid, o.stats.Stats.BacklogJobs = "pod", 9
	status, _ := makeStatus(o, plan{}, applied{})
	if status.Memory != nil || ptr.Deref(status.LostJobs, -1) != 0 {
		t.Errorf("lost %v, account %+v", status.LostJobs, status.Memory)
	}
}
