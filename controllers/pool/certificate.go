package pool

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/certs"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// ensureCertificate makes the certificate of the workers.
func (r *Reconciler) ensureCertificate(ctx context.Context, pool *v1alpha1.WorkerPool) (certs.Issued, error) {
	issued, err := r.Issuer.EnsureFor(ctx, pool, r.Recorder, certs.Serving{
		Namespace: pool.Namespace, Entry: runtimeconfig.WorkerName(pool.Name),
		Hosts: []string{runtimeconfig.WorkerHost(pool.Name, pool.Namespace)},
		Owner: *metav1.NewControllerRef(pool, v1alpha1.GroupVersion.WithKind(v1alpha1.KindWorkerPool)),
	})
	if err == nil && issued.Missing == "" {
		r.Metrics.PoolCertificate(pool.Namespace, pool.Name, issued.Expires)
	}
	return issued, err
}
