package flow

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/conditions"
	"github.com/workpulling/workpulling/internal/flowstats"
	"github.com/workpulling/workpulling/internal/podhealth"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/test/builders"
)

func statefulSet(annotations map[string]string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
}

func podWith(ready bool) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders-producer-0", UID: "pod"}}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	return pod
}

func serving() *observation {
	o := &observation{flow: builders.MakeFlow("orders", "shop").Memory().Generation(3).Obj(), pod: podWith(true)}
	return o.reporting(&protocolv1.FlowStats{State: "Running", QueueAvailable: true, Epoch: 4, Workers: []*protocolv1.BoundWorker{{PodUid: "w"}}})
}

func TestConditions(t *testing.T) {
	type edit func(*observation)
	stats := func(change func(*protocolv1.FlowStats)) edit {
		return func(o *observation) { change(o.stats.Stats) }
	}
	volume := func(size, capacity string) edit {
		return func(o *observation) {
			storage := func(of string) corev1.ResourceList {
				return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(of)}
			}
			o.flow.Spec.Queue = builders.MakeFlow("orders", "shop").Volume(size, "fast").Obj().Spec.Queue
			o.claim = &corev1.PersistentVolumeClaim{
				Spec:   corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: storage(size)}},
				Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: storage(capacity)},
			}
		}
	}
	pools := func(replicas ...int32) edit {
		return func(o *observation) {
			o.stats.Stats.Workers = nil
			for _, n := range replicas {
				o.pools = append(o.pools, *builders.MakePool("packers", "shop", "orders").Replicas(n).Obj())
			}
		}
	}
	local := func(o *observation) { o.flow.Spec.Queue.Type = v1alpha1.QueueLocal }
	cases := map[string]struct {
		edits   []edit
		applied applied
		// want is condition → "status/reason"; text is part of Ready's message.
		want map[string]string
		text string
	}{
		"serving": {want: map[string]string{
			"Ready": "True/Serving", "ProducerAvailable": "True/ProducerReady", "QueueAvailable": "True/QueueReady", "WorkersBound": "True/WorkersBound",
			"DeliveryFailed": "False/Delivering", "HasDeadLetters": "False/NoDeadLetters",
		}},
		"backlog full": {
			edits: []edit{pools(0), stats(func(s *protocolv1.FlowStats) { s.BacklogFull = true })},
			want:  map[string]string{"Ready": "True/BacklogFull", "QueueAvailable": "True/BacklogFull", "WorkersBound": "False/PoolsAtZero"}, text: "raise spec.backlog",
		},
		"dead letters": {edits: []edit{stats(func(s *protocolv1.FlowStats) { s.DeadLetters = 2 })}, want: map[string]string{"Ready": "True/Serving", "HasDeadLetters": "True/JobsDeadLettered"}},
		"disk full": {
			edits: []edit{stats(func(s *protocolv1.FlowStats) { s.QueueAvailable, s.QueueMessage = false, "no space left on device" })},
			want:  map[string]string{"Ready": "False/StoreUnavailable", "QueueAvailable": "False/StoreUnavailable"}, text: "no space left",
		},
		"full volume": {
			edits: []edit{stats(func(s *protocolv1.FlowStats) {
				s.QueueAvailable, s.QueueCode, s.QueueMessage = false, runtimeconfig.QueueFull, "no space left on device"
			})},
			want: map[string]string{"Ready": "False/QueueFull", "QueueAvailable": "False/QueueFull"}, text: "raise spec.queue.local.size",
		},
		"locked volume": {
			edits: []edit{stats(func(s *protocolv1.FlowStats) {
				s.State, s.QueueAvailable, s.QueueCode, s.QueueMessage = "Loading", false, runtimeconfig.QueueLocked, "in use by another process: pod orders-producer-0 of UID a"
			})},
			want: map[string]string{"Ready": "False/QueueLocked", "QueueAvailable": "False/QueueLocked", "DeliveryFailed": "False/Delivering"}, text: "of UID a; the producer goes on by itself",
		},
		"volume that is locked for long": {
			edits: []edit{stats(func(s *protocolv1.FlowStats) {
				s.State, s.QueueAvailable, s.QueueCode, s.QueueMessage = "Loading", false, runtimeconfig.QueueLocked, "in use"
				s.FailureStage, s.FailureReason = "Load", "in use"
			})},
			want: map[string]string{"Ready": "False/QueueLocked", "QueueAvailable": "False/QueueLocked", "DeliveryFailed": "True/LoadFailed"}, text: "bring the node",
		},
		"loading": {edits: []edit{stats(func(s *protocolv1.FlowStats) { s.State = "Loading" })}, want: map[string]string{"Ready": "False/QueueLoading"}},
		"fenced": {
			edits: []edit{stats(func(s *protocolv1.FlowStats) {
				s.State, s.FailureStage, s.FailureCode, s.FailureReason = "Failed", "Store", "fenced", "another producer has it, no conflict"
			})},
			want: map[string]string{"Ready": "False/StoreFenced", "DeliveryFailed": "True/StoreFenced"},
		},
		"corrupt": {
			edits: []edit{stats(func(s *protocolv1.FlowStats) {
				s.State, s.FailureStage, s.FailureReason = "Failed", "Protocol", "corrupt row"
			})},
			want: map[string]string{"DeliveryFailed": "True/ProtocolViolation"},
		},
		"revision paused": {
			edits: []edit{stats(func(s *protocolv1.FlowStats) {
				s.Workers = []*protocolv1.BoundWorker{{PodUid: "w", Pool: "packers", Revision: "r2"}}
				s.PausedRevisions = []*protocolv1.PausedRevision{{Pool: "packers", Revision: "r2", Failures: 10, Reason: "500"}}
			})},
			want: map[string]string{"Ready": "True/Serving", "WorkersBound": "False/RevisionPaused"},
		},
		"one of two revisions paused": {
			edits: []edit{stats(func(s *protocolv1.FlowStats) {
				s.Workers = []*protocolv1.BoundWorker{{PodUid: "w", Pool: "packers", Revision: "r2"}, {PodUid: "v", Pool: "packers", Revision: "r1"}}
				s.PausedRevisions = []*protocolv1.PausedRevision{{Pool: "packers", Revision: "r2"}}
			})},
			want: map[string]string{"WorkersBound": "True/WorkersBound"},
		},
		"tokens offline": {
			edits: []edit{stats(func(s *protocolv1.FlowStats) { s.Verification = "Offline" })},
			want:  map[string]string{"Ready": "True/Serving", "TokensVerified": "True/VerifiedOffline"},
		},
		"tokens reviewed": {
			edits: []edit{stats(func(s *protocolv1.FlowStats) { s.Verification, s.VerificationMessage = "TokenReview", "Forbidden" })},
			want:  map[string]string{"Ready": "True/Serving", "TokensVerified": "True/VerifiedByTokenReview"},
		},
		"tokens not verified": {
			edits: []edit{stats(func(s *protocolv1.FlowStats) {
				s.Verification, s.VerificationMessage = "Unavailable", "neither keys nor reviews"
			})},
			want: map[string]string{"Ready": "False/TokensUnverifiable", "TokensVerified": "False/TokensUnverifiable"}, text: "neither keys",
		},
		"tokens of an older producer": {want: map[string]string{"Ready": "True/Serving", "TokensVerified": "Unknown/VerificationUnknown"}},
		"no pool":                     {edits: []edit{stats(func(s *protocolv1.FlowStats) { s.Workers = nil })}, want: map[string]string{"Ready": "True/Serving", "WorkersBound": "False/NoPool"}},
		"pod pending":                 {edits: []edit{func(o *observation) { o.pod = podWith(false); o.stats.Connected = false }}, want: map[string]string{"Ready": "False/PodStarting"}},
		"silent": {
			edits: []edit{func(o *observation) { o.stats.Connected, o.silent = false, true }},
			want:  map[string]string{"Ready": "Unknown/ProducerSilent", "QueueAvailable": "Unknown/ProducerSilent"},
		},
		"quota": {
			edits: []edit{func(o *observation) {
				o.pod, o.stats.Connected, o.refusal = nil, false, podhealth.Problem{Reason: v1alpha1.ReasonQuotaExceeded, Message: "exceeded quota: small"}
			}},
			want: map[string]string{"Ready": "False/QuotaExceeded", "ProducerAvailable": "False/QuotaExceeded"}, text: "small",
		},
		"name taken": {
			applied: applied{obstacle: podhealth.Problem{Reason: v1alpha1.ReasonNameConflict, Message: "Service taken"}},
			want:    map[string]string{"Ready": "False/NameConflict"}, text: "taken",
		},
		"certificate": {
			edits:   []edit{func(o *observation) { o.pod, o.stats.Connected = nil, false }},
			applied: applied{obstacle: obstacleOf(v1alpha1.ReasonCertificatePending, errors.New("the Secret cannot be written"))},
			want:    map[string]string{"Ready": "False/CertificatePending", "ProducerAvailable": "False/CertificatePending"}, text: "Secret",
		},
		"unable": {
			applied: applied{obstacle: obstacleOf(v1alpha1.ReasonReconcileFailed, errors.New("etcd is away"))},
			want:    map[string]string{"Ready": "False/ReconcileFailed", "ProducerAvailable": "False/ReconcileFailed"}, text: "etcd",
		},
		"resized":  {edits: []edit{volume("2Gi", "2Gi")}, want: map[string]string{"QueueAvailable": "True/QueueReady"}},
		"resizing": {edits: []edit{volume("2Gi", "1Gi")}, want: map[string]string{"Ready": "True/Serving", "QueueAvailable": "True/VolumeResizing"}},
		"resize refused": {
			edits: []edit{volume("2Gi", "1Gi")}, applied: applied{resizeRefused: "the class does not allow it"},
			want: map[string]string{"Ready": "True/Serving", "QueueAvailable": "True/VolumeResizeRefused"},
		},
		"pools at zero": {edits: []edit{pools(0, 0)}, want: map[string]string{"Ready": "True/Serving", "WorkersBound": "False/PoolsAtZero"}},
		"workers start": {edits: []edit{pools(0, 2)}, want: map[string]string{"Ready": "True/Serving", "WorkersBound": "False/WorkersStarting"}},
		"no class": {
			edits: []edit{local, func(o *observation) {
				o.claim = &corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}
				o.storage = storageOf(builders.MakeFlow("orders", "shop").Volume("1Gi", "fast").Obj(), nil)
			}},
			want: map[string]string{"Ready": "False/VolumePending", "QueueAvailable": "False/VolumePending"}, text: `no StorageClass "fast"`,
		},
		"node gone": {
			edits: []edit{local, func(o *observation) { o.pod, o.stats.Connected, o.nodeLost = podWith(false), false, "node-2" }},
			want:  map[string]string{"Ready": "False/VolumeNodeLost"}, text: "kubectl delete node node-2",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := serving()
			for _, edit := range tc.edits {
				edit(o)
			}
			status, _ := makeStatus(o, plan{}, tc.applied)
			for kind, want := range tc.want {
				c := meta.FindStatusCondition(status.Conditions, kind)
				if got := string(c.Status) + "/" + c.Reason; got != want {
					t.Errorf("%s is %s (%s), want %s", kind, got, c.Message, want)
				}
				if c.ObservedGeneration != 3 {
					t.Errorf("%s is about generation %d", kind, c.ObservedGeneration)
				}
			}
			if ready := meta.FindStatusCondition(status.Conditions, "Ready"); !strings.Contains(ready.Message, tc.text) {
				t.Errorf("Ready says %q, want a text with %q", ready.Message, tc.text)
			}
		})
	}
}

// A flow that serves and will have no certificate says so beside the producer.
func TestTheNextCertificateDoesNotCome(t *testing.T) {
	status, _ := makeStatus(serving(), plan{}, applied{certificateTrouble: "the next certificate does not come"})
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionProducerAvailable)
	if c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "does not come") {
		t.Errorf("ProducerAvailable is %s and says %q", c.Status, c.Message)
	}
}

// What is true of a flow is what its producer does, which takes an edit later than the API server.
func TestSuspensionIsInForceWhenTheProducerSaysSo(t *testing.T) {
	const older, newer = "hash-before", "hash-after"
	told := func(generation int64, c conditions.Condition) []metav1.Condition {
		list := []metav1.Condition{}
		conditions.Set(&list, generation, c, conditions.True(v1alpha1.ConditionProducerAvailable, v1alpha1.ReasonProducerReady, ""),
			conditions.True(v1alpha1.ConditionQueueAvailable, v1alpha1.ReasonQueueReady, ""))
		return list
	}
	serves := conditions.True(v1alpha1.ConditionReady, v1alpha1.ReasonServing, "")
	suspended := conditions.False(v1alpha1.ConditionReady, v1alpha1.ReasonSuspended, "")
	cases := map[string]struct {
		suspend     bool
		state, hash string
		full        bool
		// told is what the status says where there is no report; state is empty then.
		told []metav1.Condition
		want string
		// text is the whole message.
		text string
	}{
		"serving":                    {state: "Running", hash: newer, want: "True/Serving"},
		"any edit, not taken":        {state: "Running", hash: older, want: "True/Serving", text: notTaken},
		"suspending":                 {suspend: true, state: "Running", hash: older, want: "True/Serving", text: "suspending: " + notTaken + ", and goes on until then"},
		"suspending, full":           {suspend: true, state: "Running", hash: older, full: true, want: "True/Serving", text: "suspending: " + notTaken + ", and goes on until then"},
		"read, not in force yet":     {suspend: true, state: "Running", hash: newer, want: "True/Serving", text: "suspending: " + notTaken + ", and goes on until then"},
		"suspended":                  {suspend: true, state: "Suspended", hash: newer, want: "False/Suspended", text: "spec.suspend is Enabled: stored jobs are kept, new ones are refused"},
		"suspended, full":            {suspend: true, state: "Suspended", hash: newer, full: true, want: "False/Suspended", text: "spec.suspend is Enabled: stored jobs are kept, new ones are refused"},
		"suspended, edited":          {suspend: true, state: "Suspended", hash: older, want: "False/Suspended", text: "spec.suspend is Enabled: stored jobs are kept, new ones are refused; " + notTaken},
		"resuming":                   {state: "Suspended", hash: older, want: "False/Suspended", text: "resuming: " + notTaken + "; until then stored jobs are kept, new ones are refused"},
		"suspended, while it loads":  {suspend: true, state: "Loading", hash: newer, want: "False/QueueLoading", text: "the producer loads the queue"},
		"no report, suspended":       {suspend: true, told: told(3, suspended), want: "False/Suspended", text: "spec.suspend is Enabled: stored jobs are kept, new ones are refused"},
		"no report, resumed":         {told: told(2, suspended), want: "False/Suspended", text: "resuming: " + notTaken + "; until then stored jobs are kept, new ones are refused"},
		"no report, serving":         {told: told(3, serves), want: "True/Serving"},
		"no report, edited":          {told: told(2, serves), want: "True/Serving", text: notTaken},
		"no report, edited, suspend": {suspend: true, told: told(2, serves), want: "True/Serving", text: "suspending: " + notTaken + ", and goes on until then"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := serving()
			if tc.suspend {
				o.flow.Spec.Suspend = v1alpha1.SwitchEnabled
			}
			o.stats.Stats.State, o.stats.Stats.ConfigHash, o.stats.Stats.BacklogFull = tc.state, tc.hash, tc.full
			if tc.told != nil {
				o.flow.Status.Conditions, o.stats = tc.told, flowstats.Snapshot{}
			}
			status, _ := makeStatus(o, plan{configHash: newer}, applied{})
			c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
			if got := string(c.Status) + "/" + c.Reason; got != tc.want || c.Message != tc.text {
				t.Errorf("Ready is %s: %q, want %s: %q", got, c.Message, tc.want, tc.text)
			}
		})
	}
}

// An opened door counts from the edit on, and a closed one when every producer has taken the edit.
func TestTheIntakeIsAuthenticatedWhenEveryProducerSaysSo(t *testing.T) {
	const older, newer = "hash-before", "hash-after"
	member := func(hash string) *protocolv1.FlowStats {
		return &protocolv1.FlowStats{FlowUid: "uid", PodUid: "b", ConfigHash: hash}
	}
	cases := map[string]struct {
		trusted  bool
		hash     string // "" for no report
		standbys []*protocolv1.FlowStats
		shared   bool
		pods     int
		told     string // status of the condition before
		want     string
		waits    bool
	}{
		"a new flow":                                {want: "Unknown/AuthenticationUnknown"},
		"tokens":                                    {hash: newer, want: "True/Tokens"},
		"another edit waits":                        {hash: older, told: "True", want: "True/Tokens"},
		"another operator":                          {told: "True", want: "True/Tokens"},
		"trusted":                                   {trusted: true, hash: newer, told: "True", want: "False/TrustedNamespace"},
		"trusted, not taken":                        {trusted: true, hash: older, told: "True", want: "False/TrustedNamespace", waits: true},
		"trusted, no report":                        {trusted: true, want: "False/TrustedNamespace", waits: true},
		"closed, not taken":                         {hash: older, told: "False", want: "False/TrustedNamespace", waits: true},
		"closed, no report":                         {told: "False", want: "False/TrustedNamespace", waits: true},
		"closed":                                    {hash: newer, told: "False", want: "True/Tokens"},
		"closed, a standby has not taken it":        {hash: newer, shared: true, pods: 2, standbys: []*protocolv1.FlowStats{member(older)}, told: "False", want: "False/TrustedNamespace", waits: true},
		"closed, a standby does not report":         {hash: newer, shared: true, pods: 2, told: "False", want: "False/TrustedNamespace", waits: true},
		"closed, the standby has taken it":          {hash: newer, shared: true, pods: 2, standbys: []*protocolv1.FlowStats{member(newer)}, told: "False", want: "True/Tokens"},
		"trusted again, a standby has not taken it": {trusted: true, hash: newer, shared: true, pods: 2, standbys: []*protocolv1.FlowStats{member(older)}, want: "False/TrustedNamespace", waits: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := serving()
			if tc.trusted {
				o.flow.Spec.Intake.Authentication = v1alpha1.IntakeTrustedNamespace
			}
			if tc.shared {
				o.flow.Spec.Queue.Type, o.pods = v1alpha1.QueuePostgreSQL, make([]corev1.Pod, tc.pods)
			}
			switch tc.told {
			case "True":
				conditions.Set(&o.flow.Status.Conditions, 2, conditions.True(v1alpha1.ConditionIntakeAuthenticated, v1alpha1.ReasonTokens, ""))
			case "False":
				conditions.Set(&o.flow.Status.Conditions, 2, conditions.False(v1alpha1.ConditionIntakeAuthenticated, v1alpha1.ReasonTrustedNamespace, ""))
			}
			if tc.hash == "" {
				o.stats = flowstats.Snapshot{}
			} else {
				o.stats.Stats.ConfigHash, o.stats.Standbys = tc.hash, tc.standbys
			}
			c := o.intakeAuthenticated(plan{configHash: newer})
			if got := string(c.Status) + "/" + c.Reason; got != tc.want || strings.Contains(c.Message, notTaken) != tc.waits {
				t.Errorf("%s: %q, want %s", got, c.Message, tc.want)
			}
		})
	}
}

// That a door is open is told once, and that it is closed again; that it was never open is no news.
func TestAnOpenIntakeIsToldOfOnce(t *testing.T) {
	o, p := serving(), plan{configHash: "hash"}
	o.flow.Status = v1alpha1.WorkPullingFlowStatus{}
	told := func() (reasons []string) {
		status, changed := makeStatus(o, p, applied{})
		o.flow.Status = status
		for _, c := range changed {
			if c.Type == v1alpha1.ConditionIntakeAuthenticated && c.Status != metav1.ConditionUnknown {
				reasons = append(reasons, c.Reason)
			}
		}
		return reasons
	}
	stats := o.stats
	o.stats = flowstats.Snapshot{}
	first := told() // nothing is known
	o.stats = stats
	o.stats.Stats.ConfigHash = "hash"
	second := told()
	o.flow.Spec.Intake.Authentication = v1alpha1.IntakeTrustedNamespace
	third, fourth := told(), told()
	o.flow.Spec.Intake.Authentication = v1alpha1.IntakeToken
	fifth := told()
	if diff := cmp.Diff([][]string{nil, nil, {v1alpha1.ReasonTrustedNamespace}, nil, {v1alpha1.ReasonTokens}}, [][]string{first, second, third, fourth, fifth}); diff != "" {
		t.Error(diff)
	}
}

// Another operator, or one that has just started, has not waited long enough to call a producer silent.
func TestSilenceOutlivesTheOperator(t *testing.T) {
	o := serving()
	o.stats.Connected, o.silent = false, true
	o.flow.Status, _ = makeStatus(o, plan{}, applied{})
	before := o.flow.Status.DeepCopy()
	o.stats, o.silent = flowstats.Snapshot{}, false
	after, changed := makeStatus(o, plan{}, applied{})
	if diff := cmp.Diff(*before, after); diff != "" || len(changed) > 0 {
		t.Errorf("the status of a silent producer changed with the operator (-before +after):\n%s", diff)
	}
}

// A failure does not end by the start of another operator either.
func TestAFailureOutlivesTheOperator(t *testing.T) {
	o := serving()
	o.stats.Stats.State, o.stats.Stats.FailureStage, o.stats.Stats.FailureCode, o.stats.Stats.DeadLetters = "Failed", "Store", "fenced", 2
	o.flow.Status, _ = makeStatus(o, plan{}, applied{})
	o.stats = flowstats.Snapshot{}
	after, _ := makeStatus(o, plan{}, applied{})
	for kind, want := range map[string]string{
		v1alpha1.ConditionReady: "False/StoreFenced", v1alpha1.ConditionDeliveryFailed: "True/StoreFenced", v1alpha1.ConditionHasDeadLetters: "True/JobsDeadLettered",
	} {
		c := meta.FindStatusCondition(after.Conditions, kind)
		if got := string(c.Status) + "/" + c.Reason; got != want {
			t.Errorf("%s is %s, want %s", kind, got, want)
		}
	}
}

// B-282, B-283, G-160: a terminal failure is one Event and one transition with the stage as its reason, a repeat of it is nothing, and
// the recovery is a transition with a new time that leaves the failure in the status.
func TestAFailureIsToldOnceAndRemembered(t *testing.T) {
	o := serving()
	recorder := events.NewFakeRecorder(20)
	look := func() v1alpha1.WorkPullingFlowStatus {
		status, changed := makeStatus(o, plan{}, applied{})
		announce(recorder, o.flow, o.newsOf(&status), changed)
		o.flow.Status = status
		return status
	}
	told := func() (about []string) {
		for {
			select {
			case event := <-recorder.Events:
				about = append(about, event)
			default:
				return about
			}
		}
	}
	look()
	told()
	o.flow.Spec.RecoverNonce = 3
	*o.stats.Stats = protocolv1.FlowStats{
		FlowUid: o.stats.Stats.FlowUid, PodUid: "pod", State: "Failed", Epoch: 4, QueueAvailable: true, RecoverNonce: 3,
		FailureStage: "Accept", FailureCode: "conflict", FailureReason: "row 7 belongs to another id",
	}
	first := look()
	if got := told(); len(got) != 1 || !strings.Contains(got[0], "Warning ReliableDeliveryFailed AcceptConflict: stage Accept: row 7 belongs to another id; ") ||
		!strings.Contains(got[0], `kubectl patch wpf -n `+o.flow.Namespace+` `+o.flow.Name+` --type merge -p '{"spec": {"recoverNonce": 4}}'`) {
		t.Errorf("events %q", got)
	}
	want := &v1alpha1.FailureStatus{
		Reason: "AcceptConflict", Stage: "Accept", Message: "row 7 belongs to another id", RecoverNonce: ptr.To[int64](3),
		Time: meta.FindStatusCondition(first.Conditions, v1alpha1.ConditionDeliveryFailed).LastTransitionTime,
	}
	if diff := cmp.Diff(want, first.LastFailure); diff != "" {
		t.Errorf("last failure (-want +got):\n%s", diff)
	}
	again := look()
	if diff := cmp.Diff(first, again); diff != "" || len(told()) > 0 {
		t.Errorf("a repeat changes the status or is told:\n%s", diff)
	}
	if got := document(o.flow, runtimeconfig.IntakeOpen, Settings{}).Halted; got == nil ||
		*got != (runtimeconfig.Halt{Stage: "Accept", Code: "conflict", Reason: "row 7 belongs to another id"}) {
		t.Errorf("a new pod is told %v", got)
	}

	o.flow.Spec.RecoverNonce = 4
	if got := document(o.flow, runtimeconfig.IntakeOpen, Settings{}); got.Halted != nil || got.RecoverNonce != 4 {
		t.Errorf("after the nonce changed the producer is told %+v", got)
	}
	for i := range o.flow.Status.Conditions {
		o.flow.Status.Conditions[i].LastTransitionTime.Time = o.flow.Status.Conditions[i].LastTransitionTime.Add(-time.Minute)
	}
	before := meta.FindStatusCondition(o.flow.Status.Conditions, v1alpha1.ConditionDeliveryFailed).LastTransitionTime
	*o.stats.Stats = protocolv1.FlowStats{PodUid: "pod", State: "Running", Epoch: 5, QueueAvailable: true, RecoverNonce: 4}
	healed := look()
	c := meta.FindStatusCondition(healed.Conditions, v1alpha1.ConditionDeliveryFailed)
	if c.Status != metav1.ConditionFalse || !c.LastTransitionTime.After(before.Time) {
		t.Errorf("after the recovery: %+v", c)
	}
	want.RecoverNonce = nil // answered
	if diff := cmp.Diff(want, healed.LastFailure); diff != "" {
		t.Errorf("last failure after the recovery (-want +got):\n%s", diff)
	}
	o.flow.Spec.RecoverNonce = 3
	if got := document(o.flow, runtimeconfig.IntakeOpen, Settings{}); got.Halted != nil {
		t.Errorf("after the nonce was changed back a new pod is told %v", got.Halted)
	}
}

// A failure that heals by itself, and data that another version can read, keep no pod from loading.
func TestOnlyTerminalFailuresHalt(t *testing.T) {
	for _, s := range []*protocolv1.FlowStats{
		{State: "Loading", FailureStage: "Load", FailureReason: "no volume"},
		{State: "Running", FailureStage: "Confirm", FailureReason: "no space"},
		{State: "Failed", FailureStage: "Load", FailureCode: "format", FailureReason: "version 9"},
	} {
		o := serving().reporting(s)
		o.flow.Status, _ = makeStatus(o, plan{}, applied{})
		if last := o.flow.Status.LastFailure; last == nil || last.RecoverNonce != nil {
			t.Errorf("%s %s: last failure %+v", s.State, s.FailureStage, last)
		}
		if got := document(o.flow, runtimeconfig.IntakeOpen, Settings{}).Halted; got != nil {
			t.Errorf("%s %s halts: %v", s.State, s.FailureStage, got)
		}
	}
}

// Every reason leads back to the code that it was made from.
func TestFailureCodeIsTheWayBack(t *testing.T) {
	for f, reason := range failureReasons {
		if got := failureCode(f.stage, reason); got != f.code {
			t.Errorf("%s %s: %q, want %q", f.stage, reason, got, f.code)
		}
	}
	if got := failureCode("Protocol", v1alpha1.ReasonProtocolViolation); got != runtimeconfig.FailureProtocol {
		t.Errorf("protocol violation: %q", got)
	}
}

func TestDocumentCarriesTheDispatch(t *testing.T) {
	flow := builders.MakeFlow("orders", "shop").Obj()
	flow.Spec.Dispatch = v1alpha1.DispatchLeastOutstanding
	if got := document(flow, runtimeconfig.IntakeOpen, Settings{}).Dispatch; got != "LeastOutstanding" {
		t.Errorf("dispatch %q", got)
	}
}

func TestNextLook(t *testing.T) {
	cases := map[string]struct {
		change func(*observation)
		ready  bool
		want   time.Duration
	}{
		"at rest":        {ready: true, want: restEvery},
		"not ready":      {want: retryEvery},
		"no pod yet":     {change: func(o *observation) { o.pod = nil }, want: podGrace},
		"refused":        {change: func(o *observation) { o.pod, o.refusal.Reason = nil, v1alpha1.ReasonQuotaExceeded }, want: retryEvery},
		"held back":      {change: func(o *observation) { o.pod, o.set.Spec.Replicas = nil, ptr.To[int32](0) }, want: retryEvery},
		"no StatefulSet": {change: func(o *observation) { o.pod, o.set = nil, nil }, want: retryEvery},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := serving()
			o.set = statefulSet(nil)
			if tc.change != nil {
				tc.change(o)
			}
			if got := o.nextLook(tc.ready, applied{}); got != tc.want {
				t.Errorf("next look in %s, want %s", got, tc.want)
			}
			if got := o.nextLook(tc.ready, applied{renewIn: time.Second}); got != time.Second {
				t.Errorf("next look in %s where a certificate is due in a second", got)
			}
		})
	}
}

func TestRuntimeLag(t *testing.T) {
	cases := map[string]struct {
		running string
		policy  v1alpha1.UpdatePolicy
		want    string
	}{
		"none":              {running: "rt-2", policy: v1alpha1.UpdateOnNextRollout},
		"until the rollout": {running: "rt-1", policy: v1alpha1.UpdateOnNextRollout, want: "set spec.runtime.updatePolicy to Rolling"},
		"by hand":           {running: "rt-1", policy: v1alpha1.UpdateManual, want: "kubectl delete pod -n shop orders-producer-0"},
		"at once":           {running: "rt-1", policy: v1alpha1.UpdateRolling, want: "is being replaced"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := serving()
			o.flow.Spec.Runtime.UpdatePolicy = tc.policy
			o.pod.Annotations = map[string]string{v1alpha1.AnnotationRuntimeRevision: tc.running}
			p := plan{set: statefulSet(map[string]string{v1alpha1.AnnotationRuntimeRevision: "rt-2"})}
			status, _ := makeStatus(o, p, applied{})
			producer := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionProducerAvailable)
			if producer.Reason != v1alpha1.ReasonProducerReady || !strings.Contains(producer.Message, tc.want) || (producer.Message == "") != (tc.want == "") {
				t.Errorf("ProducerAvailable is %s: %q, want a message with %q", producer.Reason, producer.Message, tc.want)
			}
			if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) {
				t.Error("an older runtime makes the flow unready")
			}
		})
	}
}

func TestCountsAreAbsentWithoutAReport(t *testing.T) {
	o := serving()
	o.stats.Stats.BacklogJobs = 5
	o.flow.Status, _ = makeStatus(o, plan{}, applied{})
	o.stats.Connected = false
	kept, _ := makeStatus(o, plan{}, applied{})
	if kept.Backlog == nil || *kept.Backlog != 5 || !meta.IsStatusConditionTrue(kept.Conditions, "Ready") {
		t.Errorf("a moment without a stream changed the status: %+v", kept)
	}
	o.silent = true
	gone, _ := makeStatus(o, plan{}, applied{})
	if gone.Backlog != nil || gone.Workers != nil {
		t.Error("counts of a silent producer are shown")
	}
	if gone.Queue == nil || gone.Queue.Epoch != 4 {
		t.Error("what the queue is was forgotten")
	}
}

func TestFailureReason(t *testing.T) {
	cases := map[failure]string{
		{"Load", ""}: v1alpha1.ReasonLoadFailed, {"Load", "conflict"}: v1alpha1.ReasonLoadFailed, {"Load", "format"}: v1alpha1.ReasonQueueFormatUnsupported,
		{"Store", "fenced"}: v1alpha1.ReasonStoreFenced, {"Store", "conflict"}: v1alpha1.ReasonStoreConflict,
		{"Accept", "fenced"}: v1alpha1.ReasonAcceptFenced, {"Accept", "conflict"}: v1alpha1.ReasonAcceptConflict,
		{"Confirm", "fenced"}: v1alpha1.ReasonConfirmFenced, {"Confirm", "conflict"}: v1alpha1.ReasonConfirmConflict, {"Confirm", ""}: v1alpha1.ReasonConfirmFailed,
		{"Protocol", "protocol"}: v1alpha1.ReasonProtocolViolation, {"Store", ""}: v1alpha1.ReasonProtocolViolation,
	}
	for in, want := range cases {
		if got := failureReason(in.stage, in.code); got != want {
			t.Errorf("stage %s, code %q: %s, want %s", in.stage, in.code, got, want)
		}
	}
}

func TestStorage(t *testing.T) {
	class := func(name, provisioner string, isDefault bool) storagev1.StorageClass {
		c := storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner}
		if isDefault {
			c.Annotations = map[string]string{annotationDefaultClass: "true"}
		}
		return c
	}
	classes := []storagev1.StorageClass{class("slow", "kubernetes.io/host-path", true), class("fast", "disk.example.com", false)}
	inDefault, named := builders.MakeFlow("a", "b").Obj(), builders.MakeFlow("a", "b").Volume("1Gi", "fast").Obj()
	if got := storageOf(inDefault, classes); got.provisioner != "kubernetes.io/host-path" || got.problem != "" {
		t.Errorf("the default class: %+v", got)
	}
	if got := storageOf(named, classes); got.provisioner != "disk.example.com" {
		t.Errorf("a named class: %+v", got)
	}
	if got := storageOf(inDefault, classes[1:]); !strings.Contains(got.problem, "no default StorageClass") {
		t.Errorf("without a default: %+v", got)
	}
	if got := (storage{provisioner: "disk.example.com", csi: true}).accessMode(); got != corev1.ReadWriteOncePod {
		t.Errorf("a CSI driver gives %s", got)
	}
	if got := (storage{provisioner: "kubernetes.io/host-path"}).accessMode(); got != corev1.ReadWriteOnce {
		t.Errorf("an in-tree provisioner gives %s", got)
	}
}
