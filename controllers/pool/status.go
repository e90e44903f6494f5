package pool

import (
	"fmt"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/conditions"
	"github.com/workpulling/workpulling/internal/podhealth"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// Selector is the selector of a pool's live workers in the text form of the scale subresource.
func Selector(pool *v1alpha1.WorkerPool) string {
	return v1alpha1.LabelPoolUID + "=" + string(pool.UID)
}

// tally counts the workers of a snapshot.
type tally struct {
	live, ready, updated, outdated, leaving, gone, late int
	// lagging counts the live workers with another runtime than a new one gets, where that is no reason to replace them.
	lagging int
}

func (s Snapshot) tally() tally {
	var t tally
	for _, w := range s.Workers {
		switch {
		case w.live():
			t.live++
			if w.Ready {
				t.ready++
			}
			if w.Revision == s.Revision {
				t.updated++
			}
			if s.outdated(w) {
				t.outdated++
			} else if w.RuntimeRevision != s.RuntimeRevision {
				t.lagging++
			}
		case w.leaving():
			t.leaving++
			if w.DrainingFor >= s.DrainTimeout {
				t.late++
			}
		case w.Terminal:
			t.gone++
		case w.Terminating:
			t.leaving++
		}
	}
	return t
}

// makeStatus computes the whole status from what was observed. refusal is why the last creation failed.
func makeStatus(o *observation, refusal podhealth.Problem) (v1alpha1.WorkerPoolStatus, []conditions.Transition) {
	s, t := o.snapshot, o.snapshot.tally()
	status := *o.pool.Status.DeepCopy()
	status.ObservedGeneration = o.pool.Generation
	status.Selector = Selector(o.pool)
	status.Replicas = ptr.To(int32(t.live))
	status.Ready = ptr.To(int32(t.ready))
	status.Updated = ptr.To(int32(t.updated))
	status.Draining = ptr.To(int32(t.leaving))
	status.UpdateRevision = s.Revision
	if t.outdated == 0 && t.live >= s.desired() && !s.Deleting {
		status.CurrentRevision = s.Revision
	}
	status.Registered, status.Busy = o.bound()

	accepted := o.flowAccepted()
	changed := conditions.Set(&status.Conditions, o.pool.Generation,
		o.ready(t, accepted, refusal), accepted, o.progressing(t, refusal), o.scalingActive(), drained(s, t))
	return status, changed
}

// ready is a chain: the first line that applies is the answer.
func (o *observation) ready(t tally, accepted conditions.Condition, refusal podhealth.Problem) conditions.Condition {
	const kind = v1alpha1.ConditionReady
	s := o.snapshot
	short := fmt.Sprintf("%d of %d workers are ready", t.ready, s.desired())
	problem := o.problem(refusal)
	switch {
	case s.Deleting:
		return conditions.False(kind, v1alpha1.ReasonDeleting, fmt.Sprintf(
			"waiting for %d workers to finish their jobs, each for at most %s", t.live+t.leaving, s.DrainTimeout))
	case !o.served():
		return conditions.False(kind, accepted.Reason, accepted.Message)
	case s.desired() == 0 && t.live == 0:
		return conditions.True(kind, v1alpha1.ReasonScaledToZero, "spec.replicas is 0")
	case s.Failing != "" && !s.rolling():
		return conditions.False(kind, v1alpha1.ReasonRevisionPaused, s.Failing)
	case t.ready >= s.desired():
		if obstacle := o.obstacle(refusal); s.rolling() && obstacle.Reason != "" {
			return conditions.True(kind, v1alpha1.ReasonWorkersReady, "older workers serve, and the rollout does not go on: "+obstacle.Message)
		}
		if note := o.flapping(); note != "" {
			return conditions.True(kind, v1alpha1.ReasonWorkersFlapping, note)
		}
		return conditions.True(kind, v1alpha1.ReasonWorkersReady, "")
	case problem.Reason != "":
		return conditions.False(kind, problem.Reason, short+": "+problem.Message)
	case o.flapping() != "":
		return conditions.False(kind, v1alpha1.ReasonWorkersFlapping, short+": "+o.flapping())
	}
	return conditions.False(kind, v1alpha1.ReasonWorkersUnready, short)
}

// problem is the first thing that keeps workers from being ready. What is wrong with the newest revision goes before: a person can correct it.
func (o *observation) problem(refusal podhealth.Problem) podhealth.Problem {
	if found := o.obstacle(refusal); found.Reason != "" {
		return found
	}
	return o.problemOf(filter(o.snapshot.Workers, o.snapshot.outdated))
}

// obstacle is what keeps workers of the newest revision from being made or from being ready. A rollout does not go on before it is removed.
func (o *observation) obstacle(refusal podhealth.Problem) podhealth.Problem {
	if o.unable.Reason != "" {
		return o.unable
	}
	if refusal.Reason != "" && o.snapshot.wanting() {
		return refusal
	}
	if found := o.problemOf(filter(o.snapshot.Workers, func(w Worker) bool { return !o.snapshot.outdated(w) })); found.Reason != "" {
		return found
	}
	if o.snapshot.Failing != "" {
		return podhealth.Problem{Reason: v1alpha1.ReasonRevisionPaused, Message: o.snapshot.Failing}
	}
	return podhealth.Problem{}
}

// problemOf is the first problem of the live ones among some workers.
func (o *observation) problemOf(workers []Worker) podhealth.Problem {
	workers = filter(workers, func(w Worker) bool { return w.live() && w.pod != nil })
	for _, w := range workers {
		if found := podhealth.Diagnose(w.pod); found.Reason != "" {
			return found
		}
	}
	for _, w := range workers {
		if !w.Ready && podhealth.AppSilent(w.pod) {
			return podhealth.Problem{Reason: v1alpha1.ReasonHandlerNotListening, Message: fmt.Sprintf(
				"the app of pod %s %s; it gets no job until it does", w.Name, o.silence())}
		}
	}
	return podhealth.Problem{}
}

// silence is what an app does that takes no jobs.
func (o *observation) silence() string {
	if http := o.pool.Spec.Handler.HTTP; http != nil {
		return fmt.Sprintf("does not answer on port %d", http.Port)
	}
	return "opens no stream on the socket that " + runtimeconfig.EnvSocket + " names"
}

func (o *observation) progressing(t tally, refusal podhealth.Problem) conditions.Condition {
	const kind = v1alpha1.ConditionProgressing
	s, obstacle := o.snapshot, o.obstacle(refusal)
	switch {
	case refusal.Reason != "" && s.wanting():
		return conditions.False(kind, refusal.Reason, refusal.Message)
	case s.Deleting:
		return conditions.True(kind, v1alpha1.ReasonScalingDown, "the workers finish their jobs before the pool is gone")
	case o.flowless() && t.live < s.desired():
		return conditions.False(kind, v1alpha1.ReasonFlowNotFound, "no workers are made before the flow exists")
	case s.Paused && t.outdated > 0:
		return conditions.False(kind, v1alpha1.ReasonPaused, fmt.Sprintf("spec.paused holds the rollout; %d workers are of an old revision", t.outdated))
	case s.rolling() && obstacle.Reason != "":
		return conditions.False(kind, obstacle.Reason, fmt.Sprintf(
			"%d of %d workers are of the newest revision, and the rollout does not go on: %s", t.live-t.outdated, s.desired(), obstacle.Message))
	case s.rolling():
		return conditions.True(kind, v1alpha1.ReasonRollingOut, fmt.Sprintf("%d of %d workers are of the newest revision", t.live-t.outdated, s.desired()))
	case t.live < s.desired() && (t.gone > 0 || t.leaving > 0):
		return conditions.True(kind, v1alpha1.ReasonReplacingWorkers, fmt.Sprintf("%d of %d workers exist", t.live, s.desired()))
	case t.live < s.desired():
		return conditions.True(kind, v1alpha1.ReasonScalingUp, fmt.Sprintf("%d of %d workers exist", t.live, s.desired()))
	case t.live > s.desired() || t.leaving > 0:
		return conditions.True(kind, v1alpha1.ReasonScalingDown, fmt.Sprintf("%d workers are wanted", s.desired()))
	}
	if obstacle.Reason != "" {
		return conditions.False(kind, obstacle.Reason, obstacle.Message)
	}
	return conditions.False(kind, v1alpha1.ReasonStable, o.note(t))
}

// note is what a person may want to do about a pool at rest. Empty means nothing.
func (o *observation) note(t tally) string {
	notes := []string{runtimeLag(t), o.certificateTrouble}
	return strings.Join(slices.DeleteFunc(notes, func(text string) bool { return text == "" }), "; ")
}

// runtimeLag says how many workers run with another runtime than a new one gets, and what to do. Empty means none.
func runtimeLag(t tally) string {
	if t.lagging == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d workers run with an older version or older resources of the runtime until they are replaced; "+
		"to replace them now, set spec.runtime.updatePolicy to Rolling", t.lagging, t.live)
}

func drained(s Snapshot, t tally) conditions.Condition {
	const kind = v1alpha1.ConditionDrained
	switch {
	case t.late > 0:
		return conditions.False(kind, v1alpha1.ReasonDrainTimedOut, fmt.Sprintf(
			"%d workers did not finish within %s and are deleted; raise spec.drain.timeoutSeconds above the longest job", t.late, s.DrainTimeout))
	case t.leaving > 0:
		return conditions.False(kind, v1alpha1.ReasonWorkersDraining, fmt.Sprintf("%d workers finish their jobs", t.leaving))
	}
	return conditions.True(kind, v1alpha1.ReasonNothingDraining, "")
}

// scalingActive mirrors the one HorizontalPodAutoscaler that targets the pool.
func (o *observation) scalingActive() conditions.Condition {
	const kind = v1alpha1.ConditionScalingActive
	switch len(o.autoscalers) {
	case 0:
		return conditions.False(kind, v1alpha1.ReasonNoAutoscaler, "no HorizontalPodAutoscaler targets the pool")
	case 1:
	default:
		names := make([]string, 0, len(o.autoscalers))
		for _, h := range o.autoscalers {
			names = append(names, h.Name)
		}
		slices.Sort(names)
		return conditions.False(kind, v1alpha1.ReasonAutoscalerAmbiguous, "several HorizontalPodAutoscalers target the pool: "+strings.Join(names, ", "))
	}
	autoscaler := o.autoscalers[0]
	for _, c := range autoscaler.Status.Conditions {
		if c.Type == autoscalingv2.ScalingActive && c.Status != corev1.ConditionTrue {
			return conditions.False(kind, v1alpha1.ReasonAutoscalerFailing, fmt.Sprintf("HorizontalPodAutoscaler %s: %s: %s", autoscaler.Name, c.Reason, c.Message))
		}
	}
	return conditions.True(kind, v1alpha1.ReasonAutoscalerActive, "HorizontalPodAutoscaler "+autoscaler.Name)
}
