package fencing

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/workpulling/workpulling/api/v1alpha1"
)

// newPodCache keeps who the pods of a namespace are, nothing of what they run.
func newPodCache(client metadata.Interface, namespace string) cache.SharedIndexInformer {
	resource := client.Resource(pods).Namespace(namespace)
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(unwound(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return resource.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, o)
		},
	}), client), &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
}

// newObjectCache keeps the objects of a resource in a namespace that a label selector chooses.
func newObjectCache(client dynamic.Interface, of schema.GroupVersionResource, namespace, selector string) cache.SharedIndexInformer {
	resource := client.Resource(of).Namespace(namespace)
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(unwound(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return resource.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return resource.Watch(ctx, o)
		},
	}), client), &unstructured.Unstructured{}, 0, cache.Indexers{})
}

// onlyIdentity drops what is not needed to tell who a pod is.
func onlyIdentity(object any) (any, error) {
	if pod, ok := object.(*metav1.PartialObjectMetadata); ok {
		pod.ManagedFields = nil
		pod.Annotations = map[string]string{v1alpha1.AnnotationLease: pod.Annotations[v1alpha1.AnnotationLease]}
		pod.Labels = map[string]string{v1alpha1.LabelRevision: pod.Labels[v1alpha1.LabelRevision]}
	}
	return object, nil
}

func cached[T runtime.Object](informer cache.SharedIndexInformer, namespace, name string) (T, bool) {
	var none T
	object, ok, err := informer.GetStore().GetByKey(namespace + "/" + name)
	if err != nil || !ok {
		return none, false
	}
	typed, ok := object.(T)
	return typed, ok
}

// listed is all that an informer holds.
func listed[T runtime.Object](informer cache.SharedIndexInformer) []T {
	objects := informer.GetStore().List()
	out := make([]T, 0, len(objects))
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			out = append(out, typed)
		}
	}
	return out
}
