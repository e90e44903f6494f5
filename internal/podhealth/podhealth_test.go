package podhealth

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

func TestDiagnose(t *testing.T) {
	waiting := func(reason, message string) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app", Image: "example.com/app:2", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}},
		}}}
	}
	cases := map[string]struct {
		status     corev1.PodStatus
		deleted    bool
		wantReason string
		wantText   string
	}{
		"starting":       {status: waiting("ContainerCreating", "")},
		"image":          {status: waiting("ImagePullBackOff", "no such tag"), wantReason: v1alpha1.ReasonImagePullFailed, wantText: "no such tag"},
		"image, deleted": {status: waiting("ImagePullBackOff", "no such tag"), deleted: true},
		"config":         {status: waiting("CreateContainerConfigError", `secret "x" not found`), wantReason: v1alpha1.ReasonPodConfigInvalid, wantText: `"x"`},
		"crash loop":     {status: waiting("CrashLoopBackOff", ""), wantReason: v1alpha1.ReasonPodsFailing, wantText: "exit code 3"},
		"no room": {
			status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes",
			}}},
			wantReason: v1alpha1.ReasonUnschedulable, wantText: "0/3 nodes",
		},
		"ready": {status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "media", Name: "resize-1"}, Status: tc.status}
			if tc.deleted {
				pod.DeletionTimestamp = ptr.To(metav1.Now())
			}
			got := Diagnose(pod)
			if got.Reason != tc.wantReason || !strings.Contains(got.Message, tc.wantText) {
				t.Errorf("got %+v, want reason %q and a message with %q", got, tc.wantReason, tc.wantText)
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	cases := map[string]struct {
		err        error
		want       string
		wantAnswer bool
	}{
		"quota": {apierrors.NewForbidden(pods, "x", errors.New("exceeded quota: small, requested: pods=1")), v1alpha1.ReasonQuotaExceeded, true},
		"account": {apierrors.NewForbidden(pods, "x", errors.New(`error looking up service account media/x: serviceaccount "x" not found`)),
			v1alpha1.ReasonServiceAccountNotFound, true},
		"pod security": {apierrors.NewForbidden(pods, "x", errors.New(`violates PodSecurity "restricted:latest"`)), v1alpha1.ReasonTemplateInvalid, true},
		"timeout":      {apierrors.NewTimeoutError("too slow", 1), v1alpha1.ReasonReconcileFailed, false},
		"broken line":  {errors.New("connection reset"), v1alpha1.ReasonReconcileFailed, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Refusal(tc.err); got.Reason != tc.want {
				t.Errorf("reason %q, want %q", got.Reason, tc.want)
			}
			if got := IsAnswer(tc.err); got != tc.wantAnswer {
				t.Errorf("IsAnswer %v, want %v", got, tc.wantAnswer)
			}
		})
	}
}

// Each try to make a pod bears another name; the message of a condition must not change with it.
func TestRefusalDoesNotNameThePod(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	first := Refusal(apierrors.NewForbidden(pods, "resize-abc12", errors.New("exceeded quota: small, requested: pods=1")))
	second := Refusal(apierrors.NewForbidden(pods, "resize-xyz89", errors.New("exceeded quota: small, requested: pods=1")))
	if first != second || !strings.Contains(first.Message, "exceeded quota: small") {
		t.Errorf("two tries are told apart:\n%s\n%s", first.Message, second.Message)
	}
}

func TestRuntimeStartedAndAppSilent(t *testing.T) {
	pod := &corev1.Pod{}
	if RuntimeStarted(pod) {
		t.Error("a pod without statuses has started")
	}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: runtimeconfig.ContainerSidecar, Started: ptr.To(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	if !RuntimeStarted(pod) || AppSilent(pod) {
		t.Error("want started, and no blame on an app that does not run")
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	if !AppSilent(pod) {
		t.Error("everything runs and the sidecar is not ready: the app is silent")
	}
}
