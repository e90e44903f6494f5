package pool

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/podbuilder"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// configOf is the ConfigMap that the workers of pool read, and re-read. There are so many of them at most.
func configOf(pool *v1alpha1.WorkerPool, workers int) (*corev1.ConfigMap, error) {
	document := podbuilder.WorkerDocument(pool)
	document.LeaseRenewSec = int64(runtimeconfig.LeaseInterval(workers) / time.Second)
	text, _, err := runtimeconfig.Marshal(document)
	if err != nil {
		return nil, err
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pool.Namespace, Name: runtimeconfig.WorkerConfigName(pool.Name, pool.Spec.Flows...), Labels: podbuilder.WorkerLabels(pool),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pool, v1alpha1.GroupVersion.WithKind(v1alpha1.KindWorkerPool))},
		},
		Data: map[string]string{"config.json": text},
	}, nil
}

// sweepConfigs deletes the documents that no worker reads any more.
func (r *Reconciler) sweepConfigs(ctx context.Context, o *observation) error {
	used := map[string]bool{runtimeconfig.WorkerConfigName(o.pool.Name, o.pool.Spec.Flows...): true}
	for _, w := range o.snapshot.Workers {
		used[podbuilder.ConfigOf(w.pod)] = true
	}
	var list corev1.ConfigMapList
	if err := r.Client.List(ctx, &list, client.InNamespace(o.pool.Namespace), client.MatchingLabels{v1alpha1.LabelPool: o.pool.Name}); err != nil {
		return fmt.Errorf("listing the configurations: %w", err)
	}
	for i := range list.Items {
		config := &list.Items[i]
		if used[config.Name] || !metav1.IsControlledBy(config, o.pool) {
			continue
		}
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, config)); err != nil {
			return fmt.Errorf("deleting the configuration %s: %w", config.Name, err)
		}
	}
	return nil
}
