package patch

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Status writes the status of after where it differs from that of before, and says whether it did.
func Status(ctx context.Context, c client.Client, before, after client.Object) (bool, error) {
	if equality.Semantic.DeepEqual(before, after) {
		return false, nil
	}
	if err := c.Status().Patch(ctx, after, client.MergeFrom(before)); err != nil {
		return false, fmt.Errorf("patching the status: %w", err)
	}
	return true, nil
}

// StatusOnce is Status that fails with a conflict where anybody has written the object since before was read.
func StatusOnce(ctx context.Context, c client.Client, before, after client.Object) (bool, error) {
	if equality.Semantic.DeepEqual(before, after) {
		return false, nil
	}
	if err := c.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, fmt.Errorf("patching the status: %w", err)
	}
	return true, nil
}

// AddFinalizer adds name to obj and says whether it wrote. A concurrent change of the list fails with a conflict.
func AddFinalizer(ctx context.Context, c client.Client, obj client.Object, name string) (bool, error) {
	return finalizers(ctx, c, obj, func(o client.Object) bool { return controllerutil.AddFinalizer(o, name) })
}

// RemoveFinalizer takes name from obj and says whether it wrote. An object that is gone already is no error.
func RemoveFinalizer(ctx context.Context, c client.Client, obj client.Object, name string) (bool, error) {
	return finalizers(ctx, c, obj, func(o client.Object) bool { return controllerutil.RemoveFinalizer(o, name) })
}

func finalizers(ctx context.Context, c client.Client, obj client.Object, edit func(client.Object) bool) (bool, error) {
	before, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return false, fmt.Errorf("copying %T: not an object", obj)
	}
	if !edit(obj) {
		return false, nil
	}
	err := c.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("patching the finalizers: %w", err)
	}
	return true, nil
}
