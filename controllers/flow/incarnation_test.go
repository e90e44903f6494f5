package flow

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/flowstats"
	"github.com/workpulling/workpulling/internal/metrics"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/test/builders"
)

// teller is a flow of an API server and the operator that tells of it; another teller of the same client is the next operator.
type teller struct {
	t        *testing.T
	c        client.Client
	flow     client.ObjectKey
	recorder *events.FakeRecorder
	r        *Reconciler
}

func newTeller(t *testing.T) *teller {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	flow := builders.MakeFlow("orders", "shop").PostgreSQL("orders-db", 3).Generation(1).Obj()
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(flow).WithStatusSubresource(flow).Build()
	return (&teller{t: t, c: c, flow: client.ObjectKeyFromObject(flow)}).restarted()
}

// restarted is an operator that knows what the API server knows, and nothing else.
func (w *teller) restarted() *teller {
	next := *w
	next.recorder = events.NewFakeRecorder(100)
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	next.r = &Reconciler{
		Client: w.c, Recorder: next.recorder, Metrics: metrics.NewOperator(prometheus.NewRegistry(), nil), Clock: clock,
		Stats: flowstats.NewRegistry(clock, time.Second),
	}
	return &next
}

// observes is what the operator sees while the members report this.
func (w *teller) observes(active *protocolv1.FlowStats, standbys ...*protocolv1.FlowStats) *observation {
	w.t.Helper()
	flow := &v1alpha1.WorkPullingFlow{}
	if err := w.c.Get(w.t.Context(), w.flow, flow); err != nil {
		w.t.Fatal(err)
	}
	o := &observation{flow: flow, pods: []corev1.Pod{crewPod("p-0", true), crewPod("p-1", true), crewPod("p-2", true)}}
	o.stats = flowstats.Snapshot{Stats: active, Connected: active != nil, Standbys: standbys}
	o.choosePod()
	return o
}

// tells writes the status and returns the Events that are about an incarnation.
func (w *teller) tells(o *observation) []string {
	w.t.Helper()
	if _, err := w.r.writeStatus(w.t.Context(), o, plan{}, applied{}); err != nil {
		w.t.Fatal(err)
	}
	return w.told()
}

func (w *teller) told() (list []string) {
	for {
		select {
		case event := <-w.recorder.Events:
			if strings.Contains(event, eventDeliveryFailed) {
				list = append(list, event)
			}
		default:
			return list
		}
	}
}

func running(pod string, epoch uint64) *protocolv1.FlowStats {
	return &protocolv1.FlowStats{PodUid: pod + "-uid", PodName: pod, State: "Running", QueueAvailable: true, Epoch: epoch, Shared: true}
}

func standbyFenced(pod string, epochs ...uint64) *protocolv1.FlowStats {
	s := standby(pod)
	s.PodName = pod
	for _, epoch := range epochs {
		s.Fenced = append(s.Fenced, &protocolv1.FencedIncarnation{Epoch: epoch, Stage: "Store", Reason: "a newer writer has it"})
	}
	return s
}

// A member that another one has fenced is told of once, however often and to however many operators it is reported, and the flow stays Ready (B-070).
func TestAFencedMemberIsToldOfOnce(t *testing.T) {
	w := newTeller(t)
	if got := w.tells(w.observes(running("p-0", 3), standby("p-1"), standby("p-2"))); got != nil {
		t.Fatalf("without a fenced member: %q", got)
	}
	first := w.tells(w.observes(running("p-1", 4), standbyFenced("p-0", 3), standby("p-2")))
	want := []string{"Warning ReliableDeliveryFailed producer p-0 was fenced at epoch 3, stage Store: a newer writer has it; " +
		"producer p-1 has the queue, and the flow goes on without a person"}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
	for range 2 {
		if got := w.tells(w.observes(running("p-1", 4), standbyFenced("p-0", 3), standby("p-2"))); got != nil {
			t.Errorf("a repeat is told: %q", got)
		}
	}
	heir := w.restarted()
	o := heir.observes(running("p-1", 4), standbyFenced("p-0", 3), standby("p-2"))
	if got := heir.tells(o); got != nil {
		t.Errorf("the next operator tells it again: %q", got)
	}
	if !meta.IsStatusConditionTrue(o.flow.Status.Conditions, v1alpha1.ConditionReady) || o.flow.Status.LastFailure != nil {
		t.Errorf("the flow is %+v", o.flow.Status)
	}
	// The next takeover, whose loser and the one before report late and at a time.
	if got := heir.tells(heir.observes(running("p-2", 6), standbyFenced("p-0", 3, 5), standbyFenced("p-1", 4))); len(got) != 2 ||
		!strings.Contains(got[0], "p-1 was fenced at epoch 4") || !strings.Contains(got[1], "p-0 was fenced at epoch 5") {
		t.Errorf("two more: %q", got)
	}
	// It has the queue again, and still says what it lost.
	again := running("p-0", 7)
	again.Fenced = standbyFenced("p-0", 3, 5).Fenced
	if got := heir.tells(heir.observes(again, standbyFenced("p-1", 4), standbyFenced("p-2", 6))); len(got) != 1 || !strings.Contains(got[0], "epoch 6") {
		t.Errorf("with the queue again: %q", got)
	}
}

// What was told is bounded, and what falls out of it is not told again.
func TestWhatWasToldIsBounded(t *testing.T) {
	w, all := newTeller(t), []uint64(nil)
	for epoch := uint64(1); epoch <= 2*mostTold; epoch++ {
		all = append(all, epoch)
		if got := w.tells(w.observes(running("p-1", epoch+1), standbyFenced("p-0", all...))); len(got) != 1 || !strings.Contains(got[0], fmt.Sprintf("epoch %d,", epoch)) {
			t.Fatalf("at epoch %d: %q", epoch, got)
		}
	}
	o := w.observes(running("p-1", 99), standbyFenced("p-0", all...))
	if told := o.toldEpochs(); len(told) != mostTold || told[0] != mostTold+1 {
		t.Errorf("told %v", told)
	}
}

// Two operators that see the same at a time: one of them writes that it was told, and tells it.
func TestOneOfTwoOperatorsTells(t *testing.T) {
	w := newTeller(t)
	rival := w.restarted()
	see := func(w *teller) *observation {
		return w.observes(running("p-1", 4), standbyFenced("p-0", 3), standby("p-2"))
	}
	mine, theirs := see(w), see(rival)
	if got := w.tells(mine); len(got) != 1 {
		t.Fatalf("the first tells %q", got)
	}
	if _, err := rival.r.writeStatus(t.Context(), theirs, plan{}, applied{}); !apierrors.IsConflict(err) {
		t.Errorf("the second writes over it: %v", err)
	}
	if got := rival.told(); got != nil {
		t.Errorf("the second tells %q", got)
	}
	if got := rival.tells(see(rival)); got != nil {
		t.Errorf("the second tells after all: %q", got)
	}
}

// A failure for good is told once until a person has answered it: the next process, a standby and the next operator say the same again (B-282).
func TestAFailureForGoodIsToldOnce(t *testing.T) {
	w := newTeller(t)
	failed := func(pod string, epoch uint64, nonce int64) *protocolv1.FlowStats {
		s := running(pod, epoch)
		s.State, s.FailureStage, s.FailureCode, s.FailureReason, s.RecoverNonce = "Failed", "Confirm", runtimeconfig.FailureConflict, "row 7 is gone", nonce
		return s
	}
	got := w.tells(w.observes(failed("p-0", 3, 0), standby("p-1")))
	if len(got) != 1 || !strings.HasPrefix(got[0], "Warning ReliableDeliveryFailed ConfirmConflict: stage Confirm: row 7 is gone; ") || !strings.Contains(got[0], `{"recoverNonce": 1}`) {
		t.Fatalf("events %q", got)
	}
	loading := standby("p-1")
	loading.FailureStage, loading.FailureReason = "Load", "no route to the database"
	for _, step := range []struct {
		name     string
		active   *protocolv1.FlowStats
		standbys []*protocolv1.FlowStats
	}{
		{"a repeat", failed("p-0", 3, 0), []*protocolv1.FlowStats{standby("p-1")}},
		{"the next process of the pod", failed("p-0", 0, 0), []*protocolv1.FlowStats{standby("p-1")}},
		{"a pod that takes its place", failed("p-1", 0, 0), nil},
		{"nobody who reports", nil, nil},
		{"a standby that cannot load", nil, []*protocolv1.FlowStats{loading}},
		{"the failed one after that", failed("p-0", 0, 0), []*protocolv1.FlowStats{standby("p-1")}},
	} {
		if got := w.tells(w.observes(step.active, step.standbys...)); got != nil {
			t.Errorf("%s: %q", step.name, got)
		}
	}
	heir := w.restarted()
	if got := heir.tells(heir.observes(failed("p-0", 3, 0))); got != nil {
		t.Errorf("the next operator: %q", got)
	}
	// A person has answered, and it fails again.
	flow := heir.observes(nil).flow
	flow.Spec.RecoverNonce = 1
	if err := w.c.Update(t.Context(), flow); err != nil {
		t.Fatal(err)
	}
	if got := heir.tells(heir.observes(failed("p-0", 4, 1))); len(got) != 1 {
		t.Errorf("after another nonce: %q", got)
	}
}
