package fencing

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// unwound returns a watch that does not go on where its API server has gone back in time, as after the restoration of a backup. Such a server
// takes a version of its own future for one that will come, and says nothing until its count has got there: neither what was lost, nor what
// happens meanwhile. So each watch that goes on from a version first asks where the server is. Where that is behind, the version is
// called expired, and the informer lists everything anew: what is not there any more is deleted then, and told.
func unwound(of *cache.ListWatch) *cache.ListWatch {
	begin := of.WatchFuncWithContext
	of.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		if o.ResourceVersion != "" && o.ResourceVersion != "0" {
			if err := ahead(ctx, of, o.ResourceVersion); err != nil {
				return nil, err
			}
		}
		return begin(ctx, o)
	}
	return of
}

// ahead returns an error where a version is ahead of the API server, or that is not known.
func ahead(ctx context.Context, of *cache.ListWatch, version string) error {
	// A list without a version is as fresh as the store itself, whatever the API server that answers has in its cache.
	list, err := of.ListWithContextFunc(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	now, err := meta.ListAccessor(list)
	if err != nil {
		return fmt.Errorf("reading the version of a list: %w", err)
	}
	// What is no number says nothing about order: then the API server knows best.
	if order, err := resourceversion.CompareResourceVersion(now.GetResourceVersion(), version); err == nil && order < 0 {
		return apierrors.NewResourceExpired(fmt.Sprintf("the API server has gone back from version %s to %s", version, now.GetResourceVersion()))
	}
	return nil
}
