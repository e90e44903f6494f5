package pool

import (
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/flowstats"
	"github.com/workpulling/workpulling/internal/podhealth"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/test/builders"
)

func observed(s Snapshot) *observation {
	for i := range s.Workers {
		s.Workers[i].pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: s.Workers[i].Name}}
	}
	return &observation{
		pool:    builders.MakePool("packers", "shop", "orders").UID("pool-uid").Generation(4).Obj(),
		sources: []pullSource{{name: "orders", flow: builders.MakeFlow("orders", "shop").Obj()}}, snapshot: s,
	}
}

func TestConditions(t *testing.T) {
	waiting := func(o *observation, reason string) {
		o.snapshot.Workers[0].pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "app", Image: "app:none", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
		}}
	}
	paused := func(revision string) func(*observation) {
		return func(o *observation) {
			o.sources[0].stats = flowstats.Snapshot{Connected: true, Stats: &protocolv1.FlowStats{PausedRevisions: []*protocolv1.PausedRevision{
				{Pool: "others", Revision: newest, Reason: "404"}, {Pool: "packers", Revision: revision, Reason: "500"},
			}}}
			o.snapshot.Failing = o.failing()
		}
	}
	flapping := func(uid string) func(*observation) {
		return func(o *observation) {
			o.sources[0].stats = flowstats.Snapshot{Connected: true, Stats: &protocolv1.FlowStats{QuarantinedWorkers: []*protocolv1.QuarantinedWorker{
				{PodUid: uid, PodName: "pod-" + uid, Pool: "packers", Flapping: true}, {PodUid: "a", PodName: "pod-a", Pool: "packers"},
			}}}
		}
	}
	autoscaler := func(name string, active corev1.ConditionStatus) autoscalingv2.HorizontalPodAutoscaler {
		return autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.ScalingActive, Status: active, Reason: "FailedGetResourceMetric"}},
		}}
	}
	cases := map[string]struct {
		snapshot Snapshot
		change   func(*observation)
		refusal  podhealth.Problem
		want     map[string]string
		text     string
	}{
		"at rest": {snapshot: snapshotOf(1, make1("a")), want: map[string]string{
			"Ready": "True/WorkersReady", "FlowAccepted": "True/FlowFound", "Progressing": "False/Stable", "ScalingActive": "False/NoAutoscaler", "Drained": "True/NothingDraining",
		}},
		"nothing can be done": {snapshot: snapshotOf(1, make1("a")), change: func(o *observation) {
			o.unable = podhealth.Problem{Reason: v1alpha1.ReasonNetworkPolicyRefused, Message: "exceeded quota"}
		}, want: map[string]string{"Ready": "True/WorkersReady", "Progressing": "False/NetworkPolicyRefused"}},
		"at zero":    {snapshot: snapshotOf(0), want: map[string]string{"Ready": "True/ScaledToZero"}},
		"growing":    {snapshot: snapshotOf(3, make1("a"), make1("b").pending()), want: map[string]string{"Ready": "False/WorkersUnready", "Progressing": "True/ScalingUp"}, text: "1 of 3"},
		"replacing":  {snapshot: snapshotOf(2, make1("a"), make1("b").terminal()), want: map[string]string{"Progressing": "True/ReplacingWorkers"}},
		"shrinking":  {snapshot: snapshotOf(1, make1("a"), make1("b").marked(1).draining(1)), want: map[string]string{"Ready": "True/WorkersReady", "Progressing": "True/ScalingDown", "Drained": "False/WorkersDraining"}},
		"too late":   {snapshot: snapshotOf(1, make1("a"), make1("b").marked(time.Hour).draining(1)), want: map[string]string{"Drained": "False/DrainTimedOut"}},
		"rolling":    {snapshot: snapshotOf(2, make1("a").old(), make1("b")), want: map[string]string{"Progressing": "True/RollingOut"}},
		"held":       {snapshot: snapshotOf(2, make1("a").old(), make1("b")), change: func(o *observation) { o.snapshot.Paused = true }, want: map[string]string{"Progressing": "False/Paused"}},
		"no flow":    {snapshot: snapshotOf(1), change: func(o *observation) { o.sources[0].flow = nil }, want: map[string]string{"Ready": "False/FlowNotFound", "FlowAccepted": "False/FlowNotFound", "Progressing": "False/FlowNotFound"}},
		"suspended":  {snapshot: snapshotOf(1, make1("a")), change: func(o *observation) { o.sources[0].flow.Spec.Suspend = v1alpha1.SwitchEnabled }, want: map[string]string{"FlowAccepted": "True/FlowSuspended"}},
		"capped":     {snapshot: snapshotOf(1, make1("a")), change: func(o *observation) { o.sources[0].flow.Spec.MaxFlowControlWindow = 10 }, want: map[string]string{"FlowAccepted": "True/WindowCapped"}},
		"wrong user": {snapshot: snapshotOf(1), change: func(o *observation) { o.sources[0].flow.Spec.AllowedServiceAccounts = []string{"packer"} }, want: map[string]string{"FlowAccepted": "False/ServiceAccountNotAllowed", "Ready": "False/ServiceAccountNotAllowed"}, text: `"default"`},
		"no image":   {snapshot: snapshotOf(1, make1("a").pending()), change: func(o *observation) { waiting(o, "ImagePullBackOff") }, want: map[string]string{"Ready": "False/ImagePullFailed"}, text: "app:none"},
		"crashing":   {snapshot: snapshotOf(1, make1("a").unready()), change: func(o *observation) { waiting(o, "CrashLoopBackOff") }, want: map[string]string{"Ready": "False/PodsFailing"}, text: "kubectl logs"},
		"app silent": {
			snapshot: snapshotOf(1, make1("a").unready()), change: func(o *observation) {
				running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
				o.snapshot.Workers[0].pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: runtimeconfig.ContainerSidecar, State: running, Started: ptr.To(true)}}
				o.snapshot.Workers[0].pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: running}}
			},
			want: map[string]string{"Ready": "False/HandlerNotListening"}, text: "port 8080",
		},
		"app without a stream": {
			snapshot: snapshotOf(1, make1("a").unready()), change: func(o *observation) {
				o.pool.Spec.Handler = v1alpha1.HandlerSpec{Stream: &v1alpha1.StreamHandlerSpec{TimeoutSeconds: 60}}
				running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
				o.snapshot.Workers[0].pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: runtimeconfig.ContainerSidecar, State: running, Started: ptr.To(true)}}
				o.snapshot.Workers[0].pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: running}}
			},
			want: map[string]string{"Ready": "False/HandlerNotListening"}, text: "opens no stream on the socket that WORKPULLING_SOCKET names",
		},
		"quota": {
			snapshot: snapshotOf(1), refusal: podhealth.Problem{Reason: v1alpha1.ReasonQuotaExceeded, Message: "exceeded quota: small"},
			want: map[string]string{"Ready": "False/QuotaExceeded", "Progressing": "False/QuotaExceeded"}, text: "small",
		},
		"revision paused": {
			snapshot: snapshotOf(1, make1("a")), change: paused(newest),
			want: map[string]string{"Ready": "False/RevisionPaused", "Progressing": "False/RevisionPaused"}, text: "500",
		},
		"rollout of a paused revision": {
			snapshot: snapshotOf(2, make1("a").old(), make1("b").old(), make1("c")), change: paused(newest),
			want: map[string]string{"Ready": "True/WorkersReady", "Progressing": "False/RevisionPaused"}, text: "older workers serve",
		},
		"older revision paused": {
			snapshot: snapshotOf(2, make1("a").old(), make1("b")), change: paused(oldest),
			want: map[string]string{"Ready": "True/WorkersReady", "Progressing": "True/RollingOut"},
		},
		"flapping": {
			snapshot: snapshotOf(2, make1("a"), make1("b")), change: flapping("b"),
			want: map[string]string{"Ready": "True/WorkersFlapping", "Progressing": "False/Stable"}, text: "again and again: pod-b",
		},
		"flapping and unready": {
			snapshot: snapshotOf(2, make1("a"), make1("b").unready()), change: flapping("b"),
			want: map[string]string{"Ready": "False/WorkersFlapping"}, text: "1 of 2 workers are ready",
		},
		"flapped": {snapshot: snapshotOf(1, make1("a")), change: flapping("gone"), want: map[string]string{"Ready": "True/WorkersReady"}},
		"rollout refused": {
			snapshot: snapshotOf(1, make1("a").old()), refusal: podhealth.Problem{Reason: v1alpha1.ReasonTemplateInvalid, Message: "no such port"},
			want: map[string]string{"Ready": "True/WorkersReady", "Progressing": "False/TemplateInvalid"}, text: "the rollout does not go on: no such port",
		},
		"unable": {
			snapshot: snapshotOf(1), refusal: podhealth.Problem{Reason: v1alpha1.ReasonReconcileFailed, Message: "etcd is away"},
			want: map[string]string{"Ready": "False/ReconcileFailed", "Progressing": "False/ReconcileFailed"}, text: "etcd",
		},
		"flow deleting": {
			snapshot: snapshotOf(1, make1("a")), change: func(o *observation) { o.sources[0].flow.DeletionTimestamp = ptr.To(metav1.Now()) },
			want: map[string]string{"FlowAccepted": "False/FlowDeleting", "Ready": "False/FlowDeleting"}, text: "finish its jobs",
		},
		"deleting": {
			snapshot: snapshotOf(1, make1("a").marked(1).draining(1)), change: func(o *observation) { o.snapshot.Deleting = true },
			want: map[string]string{"Ready": "False/Deleting"}, text: "1 workers",
		},
		"autoscaled": {
			snapshot: snapshotOf(1, make1("a")), change: func(o *observation) {
				o.autoscalers = []autoscalingv2.HorizontalPodAutoscaler{autoscaler("x", corev1.ConditionTrue)}
			}, want: map[string]string{"ScalingActive": "True/AutoscalerActive"},
		},
		"autoscaler without metrics": {
			snapshot: snapshotOf(1, make1("a")), change: func(o *observation) {
				o.autoscalers = []autoscalingv2.HorizontalPodAutoscaler{autoscaler("x", corev1.ConditionFalse)}
			}, want: map[string]string{"ScalingActive": "False/AutoscalerFailing"},
		},
		"two autoscalers": {
			snapshot: snapshotOf(1, make1("a")), change: func(o *observation) {
				o.autoscalers = []autoscalingv2.HorizontalPodAutoscaler{autoscaler("y", corev1.ConditionTrue), autoscaler("x", corev1.ConditionTrue)}
			}, want: map[string]string{"ScalingActive": "False/AutoscalerAmbiguous"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := observed(tc.snapshot)
			if tc.change != nil {
				tc.change(o)
			}
			status, _ := makeStatus(o, tc.refusal)
			for kind, want := range tc.want {
				c := meta.FindStatusCondition(status.Conditions, kind)
				if got := string(c.Status) + "/" + c.Reason; got != want {
					t.Errorf("%s is %s (%s), want %s", kind, got, c.Message, want)
				}
			}
			if ready := meta.FindStatusCondition(status.Conditions, "Ready"); !strings.Contains(ready.Message, tc.text) {
				t.Errorf("Ready says %q, want a text with %q", ready.Message, tc.text)
			}
			if status.Selector == "" || status.Replicas == nil || status.ObservedGeneration != 4 {
				t.Errorf("an autoscaler cannot read %+v", status)
			}
		})
	}
}

// A rollout that cannot go on, and workers that are all there and do not work, are not called healthy.
func TestObstacle(t *testing.T) {
	waiting := func(reason, message string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "app", Image: "app:none", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
			}}
		}
	}
	noSecret, noImage := waiting("CreateContainerConfigError", `secret "api-key" not found`), waiting("ImagePullBackOff", "no such tag")
	noRoom := func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes",
		}}
	}
	silent := func(pod *corev1.Pod) {
		running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: runtimeconfig.ContainerSidecar, State: running, Started: ptr.To(true)}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: running}}
	}
	cases := map[string]struct {
		snapshot Snapshot
		// pods are the states of the workers by name.
		pods               map[string]func(*corev1.Pod)
		paused             bool
		ready, progressing string
		// readyText and progressingText are parts of the messages; empty means an empty message.
		readyText, progressingText string
	}{
		"rollout without its Secret": {
			snapshot: snapshotOf(1, make1("a").old(), make1("b").pending()), pods: map[string]func(*corev1.Pod){"b": noSecret},
			ready: "True/WorkersReady", readyText: `the rollout does not go on: pod b: container app cannot be started: secret "api-key" not found`,
			progressing: "False/PodConfigInvalid", progressingText: `"api-key" not found`,
		},
		"rollout without its image, too few serve": {
			snapshot: snapshotOf(2, make1("a").old(), make1("b").pending(), make1("c").pending()), pods: map[string]func(*corev1.Pod){"c": noImage},
			ready: "False/ImagePullFailed", readyText: "1 of 2 workers are ready", progressing: "False/ImagePullFailed", progressingText: "2 of 2 workers are of the newest revision",
		},
		"rollout without room": {
			snapshot: snapshotOf(1, make1("a").old(), make1("b").pending()), pods: map[string]func(*corev1.Pod){"b": noRoom},
			ready: "True/WorkersReady", readyText: "0/3 nodes", progressing: "False/Unschedulable", progressingText: "0/3 nodes",
		},
		"rollout to a silent app": {
			snapshot: snapshotOf(1, make1("a").old(), make1("b").unready()), pods: map[string]func(*corev1.Pod){"b": silent},
			ready: "True/WorkersReady", readyText: "port 8080", progressing: "False/HandlerNotListening", progressingText: "port 8080",
		},
		"rollout that heals": {
			snapshot: snapshotOf(1, make1("a").old().pending(), make1("b").pending()), pods: map[string]func(*corev1.Pod){"a": noSecret},
			ready: "False/PodConfigInvalid", readyText: "pod a", progressing: "True/RollingOut", progressingText: "1 of 1",
		},
		"the newest revision is told first": {
			snapshot: snapshotOf(1, make1("a").old().pending(), make1("b").pending()), pods: map[string]func(*corev1.Pod){"a": noSecret, "b": noImage},
			ready: "False/ImagePullFailed", readyText: "pod b", progressing: "False/ImagePullFailed", progressingText: "pod b",
		},
		"held, with a broken worker": {
			snapshot: snapshotOf(1, make1("a").old(), make1("b").pending()), pods: map[string]func(*corev1.Pod){"b": noSecret}, paused: true,
			ready: "True/WorkersReady", progressing: "False/Paused", progressingText: "spec.paused",
		},
		"all there, no image": {
			snapshot: snapshotOf(1, make1("a").pending()), pods: map[string]func(*corev1.Pod){"a": noImage},
			ready: "False/ImagePullFailed", readyText: "no such tag", progressing: "False/ImagePullFailed", progressingText: "no such tag",
		},
		"all there, silent": {
			snapshot: snapshotOf(1, make1("a").unready()), pods: map[string]func(*corev1.Pod){"a": silent},
			ready: "False/HandlerNotListening", readyText: "port 8080", progressing: "False/HandlerNotListening", progressingText: "port 8080",
		},
		"all there, no room": {
			snapshot: snapshotOf(1, make1("a").pending()), pods: map[string]func(*corev1.Pod){"a": noRoom},
			ready: "False/Unschedulable", readyText: "0/3 nodes", progressing: "False/Unschedulable", progressingText: "0/3 nodes",
		},
		"a broken worker that leaves is no obstacle": {
			snapshot: snapshotOf(1, make1("a"), make1("b").pending().marked(1)), pods: map[string]func(*corev1.Pod){"b": noImage},
			ready: "True/WorkersReady", progressing: "True/ScalingDown", progressingText: "1 workers are wanted",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := observed(tc.snapshot)
			o.snapshot.Paused = tc.paused
			for _, w := range o.snapshot.Workers {
				if state := tc.pods[w.Name]; state != nil {
					state(w.pod)
				}
			}
			status, _ := makeStatus(o, podhealth.Problem{})
			for kind, want := range map[string][2]string{
				v1alpha1.ConditionReady: {tc.ready, tc.readyText}, v1alpha1.ConditionProgressing: {tc.progressing, tc.progressingText},
			} {
				c := meta.FindStatusCondition(status.Conditions, kind)
				if got := string(c.Status) + "/" + c.Reason; got != want[0] || !strings.Contains(c.Message, want[1]) || (c.Message == "") != (want[1] == "") {
					t.Errorf("%s is %s: %q, want %s and a text with %q", kind, got, c.Message, want[0], want[1])
				}
			}
		})
	}
}

func TestCounts(t *testing.T) {
	o := observed(snapshotOf(3, make1("a"), make1("b").old().unready(), make1("c").marked(1), make1("d").terminating(), make1("e").terminal()))
	status, _ := makeStatus(o, podhealth.Problem{})
	if *status.Replicas != 2 || *status.Ready != 1 || *status.Updated != 1 || *status.Draining != 2 {
		t.Errorf("replicas %d, ready %d, updated %d, draining %d; want 2, 1, 1, 2", *status.Replicas, *status.Ready, *status.Updated, *status.Draining)
	}
	if status.Registered != nil || status.Busy != nil {
		t.Error("without a report nothing is known of registered and busy workers")
	}
	if status.CurrentRevision != "" || status.UpdateRevision != newest {
		t.Errorf("revisions %q and %q in the middle of a rollout", status.CurrentRevision, status.UpdateRevision)
	}
	o.sources[0].stats = flowstats.Snapshot{Connected: true, Stats: &protocolv1.FlowStats{Workers: []*protocolv1.BoundWorker{
		{PodUid: "a", InFlight: 2}, {PodUid: "b"}, {PodUid: "of-another-pool", InFlight: 1},
	}}}
	status, _ = makeStatus(o, podhealth.Problem{})
	if *status.Registered != 2 || *status.Busy != 1 {
		t.Errorf("registered %d, busy %d; want 2 and 1", *status.Registered, *status.Busy)
	}
}

func TestRuntimeLag(t *testing.T) {
	older := func(name string) *workerBuilder {
		b := make1(name)
		b.w.RuntimeRevision = "rt-0"
		return b
	}
	cases := map[string]struct {
		snapshot Snapshot
		rolling  bool
		want     string
		text     string
	}{
		"none":       {snapshot: snapshotOf(1, make1("a")), want: "False/Stable"},
		"some":       {snapshot: snapshotOf(3, older("a"), make1("b"), older("c")), want: "False/Stable", text: "2 of 3 workers run with an older version"},
		"at once":    {snapshot: snapshotOf(1, older("a")), rolling: true, want: "True/RollingOut"},
		"on its way": {snapshot: snapshotOf(1, make1("a"), older("b").marked(1).draining(1)), want: "True/ScalingDown"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := observed(tc.snapshot)
			o.snapshot.RollRuntime = tc.rolling
			status, _ := makeStatus(o, podhealth.Problem{})
			c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionProgressing)
			lags := strings.Contains(c.Message, "older version")
			if got := string(c.Status) + "/" + c.Reason; got != tc.want || !strings.Contains(c.Message, tc.text) || lags != (tc.text != "") {
				t.Errorf("Progressing is %s: %q, want %s and a text with %q", got, c.Message, tc.want, tc.text)
			}
			if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) {
				t.Error("an older runtime makes the pool unready")
			}
		})
	}
}

func TestPace(t *testing.T) {
	surge, unavailable, err := pace(v1alpha1.UpdateSpec{}, 10)
	if err != nil || surge != 3 || unavailable != 2 {
		t.Errorf("25%% of 10: surge %d, unavailable %d, error %v; want 3 (up) and 2 (down)", surge, unavailable, err)
	}
}
