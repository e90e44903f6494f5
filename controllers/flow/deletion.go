package flow

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/podhealth"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// ending is what the deletion of a flow waits for.
type ending struct {
	// release lets the flow go, because of why.
	release bool
	why     string
	// wait says, for a person, what is waited for and what can be done.
	wait string
}

// intakeOf is what the producer should do with new jobs.
func intakeOf(o *observation) runtimeconfig.Intake {
	switch {
	case o.flow.IsSuspended():
		return runtimeconfig.IntakeSuspended
	case o.flow.DeletionTimestamp == nil:
		return runtimeconfig.IntakeOpen
	case o.flow.Spec.DeletionPolicy == v1alpha1.DeletionRefuse && !(o.stats.Connected && o.held() == 0):
		// It goes on as before. Once empty it is closed, so that it stays so until it is let go.
		return runtimeconfig.IntakeOpen
	}
	return runtimeconfig.IntakeDraining
}

// held are the jobs that the last report knows of, dead letters included: those are a person's to drop, not ours.
func (o *observation) held() int64 {
	s := o.stats.Stats
	return s.GetBacklogJobs() + s.GetInFlight() + s.GetDeadLetters()
}

// endingOf decides whether a deleted flow may go. configHash is that of the document which closes the intake.
func endingOf(o *observation, configHash string) ending {
	switch {
	case o.namespace == nil || o.namespace.DeletionTimestamp != nil:
		return ending{release: true, why: "the namespace is being deleted"}
	case o.flow.Spec.DeletionPolicy == v1alpha1.DeletionDiscard:
		return ending{release: true, why: "deletionPolicy Discard drops what is not confirmed"}
	case o.neverStored():
		return ending{release: true, why: "it has never stored a job"}
	}
	orDiscard := fmt.Sprintf("or drop what the queue holds with: kubectl patch -n %s wpf %s --type merge -p '{\"spec\":{\"deletionPolicy\":\"Discard\"}}'",
		o.flow.Namespace, o.flow.Name)
	if !o.stats.Connected {
		return ending{wait: fmt.Sprintf("the producer does not report, so what the queue holds is not known%s; repair it, %s", o.hint(), orDiscard)}
	}
	closed := o.stats.Stats.GetConfigHash() == configHash && o.stats.Stats.GetState() != "Running" && o.stats.Stats.GetState() != "Loading"
	switch {
	case o.held() == 0 && closed:
		return ending{release: true, why: "its queue is empty"}
	case o.held() == 0:
		return ending{wait: "the queue is empty; waiting for the producer to close its intake"}
	}
	return ending{wait: o.whatIsHeld() + ", " + orDiscard}
}

// whatIsHeld tells what the queue holds, and then what a person can do; an alternative may follow.
func (o *observation) whatIsHeld() string {
	s := o.stats.Stats
	unconfirmed := s.GetBacklogJobs() + s.GetInFlight()
	var parts []string
	if unconfirmed > 0 {
		parts = append(parts, fmt.Sprintf("%d jobs are not confirmed", unconfirmed))
	}
	if n := s.GetDeadLetters(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d dead letters wait", n))
	}
	text := strings.Join(parts, " and ") + "; "
	switch {
	case unconfirmed == 0:
		return text + "re-drive or drop each"
	case o.flow.IsSuspended():
		return text + "the flow is suspended, set spec.suspend to Disabled so that they are worked off"
	case s.GetBacklogJobs() > 0 && len(s.GetWorkers()) == 0:
		return text + "no worker is bound, add one"
	case s.GetDeadLetters() > 0:
		return text + "wait until the workers have done the jobs, and re-drive or drop each dead letter"
	}
	return text + "wait until the workers have done them"
}

// neverStored says whether it is certain that the queue holds nothing because no producer has ever opened it.
func (o *observation) neverStored() bool {
	if o.flow.Status.Queue != nil || o.stats.Stats != nil || o.flow.Annotations[AnnotationVolume] != "" {
		return false
	}
	if o.flow.Spec.Queue.IsShared() {
		return o.set == nil // what is in the database only a producer could tell
	}
	if o.pod != nil {
		return !podhealth.RuntimeStarted(o.pod)
	}
	// Without a pod: a Memory queue is gone with it, and a Local queue is on a volume that was bound.
	return o.claim == nil || o.claim.Status.Phase != corev1.ClaimBound
}

func (o *observation) hint() string {
	if o.refusal.Message != "" {
		return " (" + o.refusal.Message + ")"
	}
	if o.pod != nil {
		if problem := podhealth.Diagnose(o.pod); problem.Message != "" {
			return " (" + problem.Message + ")"
		}
	}
	return ""
}
