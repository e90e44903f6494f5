package podhealth

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// Problem is what is wrong with a pod. The zero value means that nothing is.
type Problem struct {
	Reason  string
	Message string
}

// Diagnose returns the first problem of a pod that is not ready. A pod that merely starts has none.
func Diagnose(pod *corev1.Pod) Problem {
	if IsReady(pod) || pod.DeletionTimestamp != nil {
		return Problem{}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return Problem{v1alpha1.ReasonUnschedulable, fmt.Sprintf("pod %s fits on no node: %s", pod.Name, c.Message)}
		}
	}
	for _, status := range statuses(pod) {
		if problem := diagnoseContainer(pod, status); problem != (Problem{}) {
			return problem
		}
	}
	return Problem{}
}

func diagnoseContainer(pod *corev1.Pod, status corev1.ContainerStatus) Problem {
	waiting := status.State.Waiting
	if waiting == nil {
		return Problem{}
	}
	switch waiting.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError":
		return Problem{v1alpha1.ReasonImagePullFailed, fmt.Sprintf(
			"pod %s: image %q of container %s cannot be pulled: %s; check the name, the tag and the pull secret",
			pod.Name, status.Image, status.Name, said(waiting))}
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return Problem{v1alpha1.ReasonPodConfigInvalid, fmt.Sprintf(
			"pod %s: container %s cannot be started: %s", pod.Name, status.Name, said(waiting))}
	case "CrashLoopBackOff":
		exit := "it ends again and again"
		if last := status.LastTerminationState.Terminated; last != nil {
			exit = fmt.Sprintf("it ended with exit code %d (%s)", last.ExitCode, last.Reason)
		}
		return Problem{v1alpha1.ReasonPodsFailing, fmt.Sprintf(
			"pod %s: container %s keeps failing: %s; see kubectl logs -n %s %s -c %s --previous",
			pod.Name, status.Name, exit, pod.Namespace, pod.Name, status.Name)}
	}
	return Problem{}
}

func said(waiting *corev1.ContainerStateWaiting) string {
	if waiting.Message != "" {
		return waiting.Message
	}
	return waiting.Reason
}

// IsReady says whether the pod has the Ready condition.
func IsReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// IsTerminal says whether no container of the pod will run again.
func IsTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// TerminalCause is why a terminal pod ended, for an Event.
func TerminalCause(pod *corev1.Pod) string {
	cause := string(pod.Status.Phase)
	if pod.Status.Reason != "" {
		cause = pod.Status.Reason
	}
	if pod.Status.Message != "" {
		cause += ": " + pod.Status.Message
	}
	return cause
}

// RuntimeStarted says whether the runtime's container has ever run in this pod. Where it has not, no job has been there.
func RuntimeStarted(pod *corev1.Pod) bool {
	status, found := runtimeStatus(pod)
	return found && (status.State.Running != nil || status.State.Terminated != nil ||
		status.LastTerminationState.Terminated != nil || status.RestartCount > 0)
}

// AppSilent says whether everything in a worker runs and only the answer of the app is missing.
func AppSilent(pod *corev1.Pod) bool {
	status, found := runtimeStatus(pod)
	if !found || status.State.Running == nil || status.Ready || status.Started == nil || !*status.Started {
		return false
	}
	return len(pod.Status.ContainerStatuses) > 0 && !slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running == nil
	})
}

func runtimeStatus(pod *corev1.Pod) (corev1.ContainerStatus, bool) {
	for _, status := range statuses(pod) {
		if status.Name == runtimeconfig.ContainerSidecar || status.Name == runtimeconfig.ContainerGateway {
			return status, true
		}
	}
	return corev1.ContainerStatus{}, false
}

func statuses(pod *corev1.Pod) []corev1.ContainerStatus {
	return append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...)
}
