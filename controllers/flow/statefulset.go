package flow

import (
	"context"
	"fmt"
	"maps"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/podbuilder"
	"github.com/workpulling/workpulling/internal/children"
)

// rollout says what becomes of the template of a StatefulSet.
type rollout string

const (
	// keep leaves the template as it was applied: only the runtime or the way to build has changed.
	keep rollout = "keep"
	// verify writes the template again if anyone has changed it since.
	verify rollout = "verify"
	// replace rolls the producer.
	replace rollout = "replace"
	// stage puts the new runtime into the template, and leaves the running pod alone.
	stage rollout = "stage"
)

// rolloutOf decides by what was recorded when the template was applied.
func rolloutOf(observed, desired *appsv1.StatefulSet, policy v1alpha1.UpdatePolicy) rollout {
	same := func(key string) bool { return observed.Annotations[key] == desired.Annotations[key] }
	switch {
	case !same(v1alpha1.LabelRevision):
		return replace
	case policy == v1alpha1.UpdateRolling && observed.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType:
		return replace // what was staged waits for its pod to be deleted
	case same(podbuilder.AnnotationTemplateHash):
		return verify
	case policy == v1alpha1.UpdateRolling:
		return replace
	case policy == v1alpha1.UpdateManual:
		return stage
	}
	return keep
}

// verified remembers the generation at which each StatefulSet was last written by us. A generation that moved without us is drift. The
// API server fills in defaults, so that comparing templates cannot tell.
type verified struct {
	mu          sync.Mutex
	generations map[types.UID]int64
}

func newVerified() *verified { return &verified{generations: map[types.UID]int64{}} }

func (v *verified) is(set *appsv1.StatefulSet) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	generation, found := v.generations[set.UID]
	return found && generation == set.Generation
}

func (v *verified) note(set *appsv1.StatefulSet) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.generations[set.UID] = set.Generation
}

func (v *verified) forget(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.generations, uid)
}

// ensureStatefulSet makes the producer, or brings it in line, without a restart that nobody asked for.
func (r *Reconciler) ensureStatefulSet(ctx context.Context, o *observation, desired *appsv1.StatefulSet) error {
	children.Mark(desired)
	if o.set == nil {
		created := desired.DeepCopy()
		err := r.Client.Create(ctx, created)
		if apierrors.IsAlreadyExists(err) {
			_, err = r.Issuer.Keeper.Ensure(ctx, desired)
			return err
		}
		if err != nil {
			return fmt.Errorf("creating the StatefulSet: %w", err)
		}
		r.verified.note(created)
		return nil
	}
	if !ownsSet(o) {
		return &children.NameConflictError{Kind: "StatefulSet", Name: o.set.Name}
	}
	if o.set.DeletionTimestamp != nil {
		return nil
	}
	how := rolloutOf(o.set, desired, o.flow.Spec.Runtime.UpdatePolicy)
	if how == keep || how == verify && r.verified.is(o.set) {
		return r.ensureAround(ctx, o.set, desired, how)
	}
	after := o.set.DeepCopy()
	children.Merge(after, desired)
	after.Spec.Template = desired.Spec.Template
	switch how {
	case stage:
		after.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	case replace:
		after.Spec.UpdateStrategy = desired.Spec.UpdateStrategy
	case keep, verify:
	}
	if how == verify {
		if same, err := r.changesNothing(ctx, o.set, after); err != nil || same {
			return err
		}
	}
	if err := client.IgnoreNotFound(r.Client.Patch(ctx, after, client.MergeFrom(o.set))); err != nil {
		return fmt.Errorf("patching the StatefulSet: %w", err)
	}
	r.verified.note(after)
	return nil
}

// changesNothing asks the API server what would become of a patch, so that an operator that has just started, and remembers no
// generation, writes nothing where nothing has drifted.
func (r *Reconciler) changesNothing(ctx context.Context, observed, after *appsv1.StatefulSet) (bool, error) {
	would := after.DeepCopy()
	err := r.Client.Patch(ctx, would, client.MergeFrom(observed), client.DryRunAll)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, fmt.Errorf("trying a patch of the StatefulSet: %w", err)
	}
	if would.Generation != observed.Generation || !maps.Equal(would.Labels, observed.Labels) || !maps.Equal(would.Annotations, observed.Annotations) {
		return false, nil
	}
	r.verified.note(observed)
	return true, nil
}

// ensureAround repairs what is not the template. With the template kept, so are the records of how it was applied.
func (r *Reconciler) ensureAround(ctx context.Context, observed, desired *appsv1.StatefulSet, how rollout) error {
	want := desired.DeepCopy()
	if how == keep {
		want.Annotations = nil
	}
	after := observed.DeepCopy()
	if !children.Merge(after, want) {
		return nil
	}
	if err := client.IgnoreNotFound(r.Client.Patch(ctx, after, client.MergeFrom(observed))); err != nil {
		return fmt.Errorf("patching the StatefulSet: %w", err)
	}
	r.verified.note(after)
	return nil
}

func ownsSet(o *observation) bool {
	for _, owner := range o.set.OwnerReferences {
		if owner.UID == o.flow.UID && owner.Controller != nil && *owner.Controller {
			return true
		}
	}
	return false
}
