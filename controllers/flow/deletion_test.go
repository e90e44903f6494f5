package flow

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/flowstats"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/test/builders"
)

var now = metav1.NewTime(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))

// deleted is a flow that is being deleted and has stored jobs before.
func deleted(change func(*v1alpha1.WorkPullingFlow)) *observation {
	flow := builders.MakeFlow("orders", "shop").UID("flow-uid").DeletedAt(now).Finalizers(v1alpha1.FinalizerFlow).Obj()
	flow.Status.Queue = &v1alpha1.QueueStatus{Epoch: 1}
	if change != nil {
		change(flow)
	}
	return &observation{flow: flow, namespace: &metav1.PartialObjectMetadata{}}
}

func (o *observation) reporting(stats *protocolv1.FlowStats) *observation {
	o.stats = flowstats.Snapshot{Stats: stats, Connected: true}
	return o
}

func TestEnding(t *testing.T) {
	const closed = "hash-of-the-closed-intake"
	empty := func() *protocolv1.FlowStats { return &protocolv1.FlowStats{State: "Draining", ConfigHash: closed} }
	policy := func(p v1alpha1.DeletionPolicy) func(*v1alpha1.WorkPullingFlow) {
		return func(f *v1alpha1.WorkPullingFlow) { f.Spec.DeletionPolicy = p }
	}
	terminating := deleted(nil)
	terminating.namespace.DeletionTimestamp = &now
	fresh := func(f *v1alpha1.WorkPullingFlow) { f.Status.Queue = nil }
	started := deleted(fresh)
	started.pod = &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name: runtimeconfig.ContainerGateway, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}}}
	bound := deleted(fresh)
	bound.claim = &corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}

	cases := map[string]struct {
		o           *observation
		wantRelease bool
		wantText    string
	}{
		"empty and closed":             {o: deleted(nil).reporting(empty()), wantRelease: true},
		"empty, intake not closed yet": {o: deleted(nil).reporting(&protocolv1.FlowStats{State: "Running", ConfigHash: "older"}), wantText: "close its intake"},
		"empty, while it loads":        {o: deleted(nil).reporting(&protocolv1.FlowStats{State: "Loading", ConfigHash: closed}), wantText: "close its intake"},
		"jobs left": {
			o:        deleted(nil).reporting(&protocolv1.FlowStats{State: "Draining", ConfigHash: closed, BacklogJobs: 2, InFlight: 1}),
			wantText: "3 jobs are not confirmed; no worker is bound",
		},
		"dead letters left": {
			o:        deleted(nil).reporting(&protocolv1.FlowStats{State: "Draining", ConfigHash: closed, DeadLetters: 4}),
			wantText: "4 dead letters wait; re-drive or drop each, or drop what the queue holds with: kubectl patch",
		},
		"jobs in good hands": {
			o: deleted(nil).reporting(&protocolv1.FlowStats{
				State: "Draining", ConfigHash: closed, BacklogJobs: 45, InFlight: 1, Workers: []*protocolv1.BoundWorker{{PodUid: "w"}},
			}),
			wantText: "46 jobs are not confirmed; wait until the workers have done them, or drop what the queue holds with: kubectl patch",
		},
		"jobs and dead letters": {
			o:        deleted(nil).reporting(&protocolv1.FlowStats{State: "Draining", ConfigHash: closed, InFlight: 1, DeadLetters: 2}),
			wantText: "1 jobs are not confirmed and 2 dead letters wait; wait until the workers have done the jobs, and re-drive or drop each dead letter, or drop",
		},
		"suspended with jobs": {
			o: deleted(func(f *v1alpha1.WorkPullingFlow) { f.Spec.Suspend = v1alpha1.SwitchEnabled }).
				reporting(&protocolv1.FlowStats{State: "Suspended", ConfigHash: closed, BacklogJobs: 1}),
			wantText: "set spec.suspend to Disabled",
		},
		"producer silent":         {o: deleted(nil), wantText: "does not report"},
		"discard":                 {o: deleted(policy(v1alpha1.DeletionDiscard)), wantRelease: true},
		"namespace goes":          {o: terminating, wantRelease: true},
		"never stored":            {o: deleted(fresh), wantRelease: true},
		"a producer has run":      {o: started, wantText: "does not report"},
		"a volume was bound":      {o: bound, wantText: "does not report"},
		"refuse, empty":           {o: deleted(policy(v1alpha1.DeletionRefuse)).reporting(empty()), wantRelease: true},
		"refuse, with a job left": {o: deleted(policy(v1alpha1.DeletionRefuse)).reporting(&protocolv1.FlowStats{State: "Running", InFlight: 1}), wantText: "1 jobs"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := endingOf(tc.o, closed)
			if got.release != tc.wantRelease || !strings.Contains(got.wait, tc.wantText) {
				t.Errorf("got %+v, want release %v and a text with %q", got, tc.wantRelease, tc.wantText)
			}
			if !got.release && !strings.Contains(got.wait, "Discard") && !strings.Contains(got.wait, "intake") {
				t.Errorf("the text %q does not tell what a person can do", got.wait)
			}
		})
	}
}

func TestIntake(t *testing.T) {
	refusing := func() *observation {
		return deleted(func(f *v1alpha1.WorkPullingFlow) { f.Spec.DeletionPolicy = v1alpha1.DeletionRefuse })
	}
	cases := map[string]struct {
		o    *observation
		want runtimeconfig.Intake
	}{
		"alive":            {&observation{flow: builders.MakeFlow("orders", "shop").Obj()}, runtimeconfig.IntakeOpen},
		"suspended":        {&observation{flow: builders.MakeFlow("orders", "shop").Suspended().Obj()}, runtimeconfig.IntakeSuspended},
		"drain":            {deleted(nil), runtimeconfig.IntakeDraining},
		"refuse":           {refusing(), runtimeconfig.IntakeOpen},
		"refuse with jobs": {refusing().reporting(&protocolv1.FlowStats{BacklogJobs: 1}), runtimeconfig.IntakeOpen},
		"refuse, empty":    {refusing().reporting(&protocolv1.FlowStats{}), runtimeconfig.IntakeDraining},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := intakeOf(tc.o); got != tc.want {
				t.Errorf("intake %s, want %s", got, tc.want)
			}
		})
	}
}

func TestVolume(t *testing.T) {
	claim := func(uid, volume string, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume}, Status: corev1.PersistentVolumeClaimStatus{Phase: phase}}
		c.UID, c.Name = types.UID(uid), "workpulling-data-orders-producer-0"
		return c
	}
	going := claim("c1", "pv-1", corev1.ClaimBound)
	going.DeletionTimestamp = &now
	cases := map[string]struct {
		recorded    string
		claim       *corev1.PersistentVolumeClaim
		wantRecord  string
		wantHold    bool
		wantMissing string
	}{
		"none yet":                     {},
		"pending":                      {claim: claim("c1", "", corev1.ClaimPending)},
		"bound":                        {claim: claim("c1", "pv-1", corev1.ClaimBound), wantRecord: "c1/pv-1"},
		"still the same":               {recorded: "c1/pv-1", claim: claim("c1", "pv-1", corev1.ClaimBound), wantRecord: "c1/pv-1"},
		"deleted":                      {recorded: "c1/pv-1", wantRecord: "c1/pv-1", wantHold: true, wantMissing: "was deleted"},
		"being deleted":                {recorded: "c1/pv-1", claim: going, wantRecord: "c1/pv-1", wantMissing: "is being deleted"},
		"replaced by an empty one":     {recorded: "c1/pv-1", claim: claim("c2", "pv-2", corev1.ClaimBound), wantRecord: "c1/pv-1", wantHold: true, wantMissing: "is a new one"},
		"a new claim of the same disk": {recorded: "c1/pv-1", claim: claim("c2", "pv-1", corev1.ClaimBound), wantRecord: "c2/pv-1"},
		"lost":                         {recorded: "c1/pv-1", claim: claim("c1", "pv-1", corev1.ClaimLost), wantRecord: "c1/pv-1", wantMissing: "is lost"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			flow := builders.MakeFlow("orders", "shop").Obj()
			if tc.recorded != "" {
				flow.Annotations = map[string]string{AnnotationVolume: tc.recorded}
			}
			got := volumeOf(flow, tc.claim)
			if got.record != tc.wantRecord || got.hold != tc.wantHold || (tc.wantMissing == "") != (got.missing == "") || !strings.Contains(got.missing, tc.wantMissing) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestRolloutOf(t *testing.T) {
	build := func(image string, flow *v1alpha1.WorkPullingFlow) map[string]string {
		p, err := makePlan(&observation{flow: flow}, Settings{Image: image})
		if err != nil {
			t.Fatal(err)
		}
		return p.set.Annotations
	}
	withApp := func(image string) *v1alpha1.WorkPullingFlow {
		return builders.MakeFlow("orders", "shop").ProducerTemplate(builders.Template(image)).Obj()
	}
	cases := map[string]struct {
		before, after map[string]string
		policy        v1alpha1.UpdatePolicy
		want          rollout
	}{
		"nothing":                 {build("rt:1", withApp("app:1")), build("rt:1", withApp("app:1")), v1alpha1.UpdateOnNextRollout, verify},
		"another app":             {build("rt:1", withApp("app:1")), build("rt:1", withApp("app:2")), v1alpha1.UpdateManual, replace},
		"a newer runtime":         {build("rt:1", withApp("app:1")), build("rt:2", withApp("app:1")), v1alpha1.UpdateOnNextRollout, keep},
		"a newer runtime, now":    {build("rt:1", withApp("app:1")), build("rt:2", withApp("app:1")), v1alpha1.UpdateRolling, replace},
		"a newer runtime, manual": {build("rt:1", withApp("app:1")), build("rt:2", withApp("app:1")), v1alpha1.UpdateManual, stage},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			observed, desired := statefulSet(tc.before), statefulSet(tc.after)
			if got := rolloutOf(observed, desired, tc.policy); got != tc.want {
				t.Errorf("rollout %s, want %s", got, tc.want)
			}
		})
	}
}

// A runtime that was staged under Manual waits for its pod to be deleted. Only Rolling may not wait.
func TestRolloutOfWhatWasStaged(t *testing.T) {
	for policy, want := range map[v1alpha1.UpdatePolicy]rollout{
		v1alpha1.UpdateManual: verify, v1alpha1.UpdateOnNextRollout: verify, v1alpha1.UpdateRolling: replace,
	} {
		staged := statefulSet(nil)
		staged.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
		if got := rolloutOf(staged, statefulSet(nil), policy); got != want {
			t.Errorf("policy %s: rollout %s, want %s", policy, got, want)
		}
	}
}

func TestPlanHoldsTheProducer(t *testing.T) {
	flow := builders.MakeFlow("orders", "shop").Obj()
	flow.Annotations = map[string]string{AnnotationVolume: "c1/pv-1"}
	p, err := makePlan(&observation{flow: flow}, Settings{Image: "rt:1"})
	if err != nil {
		t.Fatal(err)
	}
	if got := ptr.Deref(p.set.Spec.Replicas, 1); got != 0 {
		t.Errorf("%d producers would start on another volume", got)
	}
}
