package children

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// NameConflictError says that the name of a child is taken by an object that is not ours.
type NameConflictError struct{ Kind, Name string }

func (e *NameConflictError) Error() string {
	return fmt.Sprintf("%s %q exists and belongs to something else; rename it, or use another name", e.Kind, e.Name)
}

// NamespaceTerminating says whether err is the refusal to make an object in a namespace that is being deleted. The deletion of the
// owner follows, so there is nothing to try again.
func NamespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// Keeper writes children.
type Keeper struct {
	// Client reads from the cache.
	Client client.Client
	// Live reads from the API server; it is asked only where a name is taken by an object that the cache does not hold.
	Live client.Reader
}

// Ensure creates desired, or brings the observed object in line with it, and says whether it wrote. A child that is being deleted is
// left alone: its removal brings the next reconcile.
func (k Keeper) Ensure(ctx context.Context, desired client.Object) (bool, error) {
	Mark(desired)
	kind, err := k.kind(desired)
	if err != nil {
		return false, err
	}
	observed, err := k.observe(ctx, k.Client, desired)
	if apierrors.IsNotFound(err) {
		created, _ := desired.DeepCopyObject().(client.Object)
		err := k.Client.Create(ctx, created)
		if err == nil {
			return true, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return false, fmt.Errorf("creating %s %s: %w", kind, desired.GetName(), err)
		}
		// The cache does not hold it: it has lost our label, or it never had it.
		observed, err = k.observe(ctx, k.Live, desired)
		if err != nil {
			return false, fmt.Errorf("reading %s %s: %w", kind, desired.GetName(), err)
		}
	} else if err != nil {
		return false, fmt.Errorf("reading %s %s: %w", kind, desired.GetName(), err)
	}
	if !ours(observed, desired) {
		return false, &NameConflictError{Kind: kind, Name: desired.GetName()}
	}
	if observed.GetDeletionTimestamp() != nil {
		return false, nil
	}
	before, _ := observed.DeepCopyObject().(client.Object)
	if !Merge(observed, desired) {
		return false, nil
	}
	if err := k.Client.Patch(ctx, observed, client.MergeFrom(before)); err != nil {
		return false, fmt.Errorf("patching %s %s: %w", kind, desired.GetName(), err)
	}
	return true, nil
}

// Remove deletes a child that the cache holds and that is ours. One that is not there, or belongs to something else, is left as it is.
func (k Keeper) Remove(ctx context.Context, unwanted client.Object) error {
	kind, err := k.kind(unwanted)
	if err != nil {
		return err
	}
	observed, err := k.observe(ctx, k.Client, unwanted)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading %s %s: %w", kind, unwanted.GetName(), err)
	case !ours(observed, unwanted) || observed.GetDeletionTimestamp() != nil:
		return nil
	}
	uid := observed.GetUID()
	err = k.Client.Delete(ctx, observed, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %s: %w", kind, unwanted.GetName(), err)
	}
	return nil
}

func (k Keeper) observe(ctx context.Context, from client.Reader, desired client.Object) (client.Object, error) {
	gvk, err := apiutil.GVKForObject(desired, k.Client.Scheme())
	if err != nil {
		return nil, err
	}
	fresh, err := k.Client.Scheme().New(gvk)
	if err != nil {
		return nil, err
	}
	observed, ok := fresh.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is not an object", fresh)
	}
	return observed, from.Get(ctx, client.ObjectKeyFromObject(desired), observed)
}

func (k Keeper) kind(obj client.Object) (string, error) {
	gvk, err := apiutil.GVKForObject(obj, k.Client.Scheme())
	if err != nil {
		return "", fmt.Errorf("finding the kind of %T: %w", obj, err)
	}
	return gvk.Kind, nil
}

// ours decides by the controller reference, and never by labels. A child without a controller is shared; the label must do there.
func ours(observed, desired client.Object) bool {
	want := metav1.GetControllerOf(desired)
	if want == nil {
		return observed.GetLabels()[LabelManagedBy] == ManagedBy
	}
	got := metav1.GetControllerOf(observed)
	return got != nil && got.UID == want.UID
}
