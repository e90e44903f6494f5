package pool

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/conditions"
	"github.com/workpulling/workpulling/internal/flowstats"
)

// pullSource is one of the flows that a pool names, as it is now.
type pullSource struct {
	name string
	// flow is nil where there is none of that name.
	flow  *v1alpha1.WorkPullingFlow
	stats flowstats.Snapshot
}

func (r *Reconciler) sourcesOf(ctx context.Context, pool *v1alpha1.WorkerPool) ([]pullSource, error) {
	sources := make([]pullSource, 0, len(pool.Spec.Flows))
	for _, name := range slices.Sorted(slices.Values(pool.Spec.Flows)) {
		s, key := pullSource{name: name}, types.NamespacedName{Namespace: pool.Namespace, Name: name}
		var flow v1alpha1.WorkPullingFlow
		switch err := r.Client.Get(ctx, key, &flow); {
		case err == nil:
			s.flow = &flow
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("reading the flow %s: %w", name, err)
		}
		s.stats, _ = r.Stats.Published(key)
		sources = append(sources, s)
	}
	return sources, nil
}

// allows says whether the flow lets workers of a ServiceAccount bind.
func (s pullSource) allows(account string) bool {
	allowed := s.flow.Spec.AllowedServiceAccounts
	return len(allowed) == 0 || slices.Contains(allowed, account)
}

// mayCreate says whether a new worker could bind to any flow: one that is missing does not stop the others.
func (o *observation) mayCreate() bool {
	account := AccountOf(o.pool)
	return slices.ContainsFunc(o.sources, func(s pullSource) bool { return s.flow != nil && s.allows(account) })
}

// AccountOf is the ServiceAccount of the pool's workers.
func AccountOf(pool *v1alpha1.WorkerPool) string {
	if name := pool.Spec.Template.Spec.ServiceAccountName; name != "" {
		return name
	}
	return "default"
}

// severity orders what may be said of a flow, the worst first.
var severity = []string{
	v1alpha1.ReasonFlowNotFound, v1alpha1.ReasonServiceAccountNotAllowed, v1alpha1.ReasonFlowDeleting,
	v1alpha1.ReasonFlowSuspended, v1alpha1.ReasonWindowCapped, v1alpha1.ReasonFlowFound,
}

// flowAccepted judges all flows together: its reason is that of the worst, its message tells of each that is not simply found.
func (o *observation) flowAccepted() conditions.Condition {
	var worst conditions.Condition
	var messages, serving []string
	for i, s := range o.sources {
		verdict := o.verdict(s)
		if i == 0 || slices.Index(severity, verdict.Reason) < slices.Index(severity, worst.Reason) {
			worst = verdict
		}
		if verdict.Message != "" {
			messages = append(messages, verdict.Message)
		}
		if verdict.Status == metav1.ConditionTrue {
			serving = append(serving, s.name)
		}
	}
	worst.Message = strings.Join(messages, "; ")
	if worst.Status == metav1.ConditionFalse && len(serving) > 0 {
		worst.Message += "; the workers pull from " + strings.Join(serving, ", ")
	}
	return worst
}

// verdict judges one flow.
func (o *observation) verdict(s pullSource) conditions.Condition {
	const kind = v1alpha1.ConditionFlowAccepted
	account := AccountOf(o.pool)
	switch {
	case s.flow == nil:
		return conditions.False(kind, v1alpha1.ReasonFlowNotFound,
			fmt.Sprintf("there is no WorkPullingFlow %q in the namespace; create it or correct spec.flows", s.name))
	case !s.allows(account):
		return conditions.False(kind, v1alpha1.ReasonServiceAccountNotAllowed, fmt.Sprintf(
			"flow %q does not allow workers of ServiceAccount %q; add it to the flow's spec.allowedServiceAccounts or change spec.template.spec.serviceAccountName",
			s.name, account))
	case s.flow.DeletionTimestamp != nil:
		return conditions.False(kind, v1alpha1.ReasonFlowDeleting, fmt.Sprintf("flow %q is being deleted; the workers finish its jobs", s.name))
	case s.flow.IsSuspended():
		return conditions.True(kind, v1alpha1.ReasonFlowSuspended, fmt.Sprintf(
			"spec.suspend of flow %q is Enabled; the workers get no jobs once its producer has taken that", s.name))
	case s.flow.Spec.MaxFlowControlWindow > 0 && o.pool.Spec.FlowControlWindow > s.flow.Spec.MaxFlowControlWindow:
		return conditions.True(kind, v1alpha1.ReasonWindowCapped, fmt.Sprintf(
			"flow %q caps the window of %d at %d", s.name, o.pool.Spec.FlowControlWindow, s.flow.Spec.MaxFlowControlWindow))
	}
	return conditions.True(kind, v1alpha1.ReasonFlowFound, "")
}

// served says whether any flow accepts the pool.
func (o *observation) served() bool {
	return slices.ContainsFunc(o.sources, func(s pullSource) bool { return o.verdict(s).Status == metav1.ConditionTrue })
}

// flowless says whether none of the flows exists.
func (o *observation) flowless() bool {
	return !slices.ContainsFunc(o.sources, func(s pullSource) bool { return s.flow != nil })
}

// bound counts the live workers that any producer knows. Without a report nothing is known.
func (o *observation) bound() (registered, busy *int32) {
	live := map[string]bool{}
	for _, w := range o.snapshot.Workers {
		live[w.UID] = !w.Terminal
	}
	known, inFlight := false, map[string]int32{}
	for _, s := range o.sources {
		if !s.stats.Connected {
			continue
		}
		known = true
		for _, worker := range s.stats.Stats.GetWorkers() {
			if live[worker.PodUid] {
				inFlight[worker.PodUid] += worker.InFlight
			}
		}
	}
	if !known {
		return nil, nil
	}
	registered, busy = new(int32), new(int32)
	for _, n := range inFlight {
		*registered++
		if n > 0 {
			*busy++
		}
	}
	return registered, busy
}
