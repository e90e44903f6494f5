package pool

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/certs"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// ensureCertificate makes the certificate of the workers, and says when to look at it again.
func (r *Reconciler) ensureCertificate(ctx context.Context, pool *v1alpha1.WorkerPool) (time.Duration, error) {
	before, err := certs.RenewBefore(pool)
	if err != nil {
		r.Recorder.Eventf(pool, nil, corev1.EventTypeWarning, "AnnotationInvalid", "Renewing", "%s", err.Error())
	}
	issued, err := r.Issuer.Ensure(ctx, certs.Serving{
		Namespace: pool.Namespace, Entry: runtimeconfig.WorkerName(pool.Name), RenewBefore: before,
		Hosts: []string{runtimeconfig.WorkerHost(pool.Name, pool.Namespace)},
	})
	if err != nil {
		return 0, err
	}
	r.Metrics.PoolCertificate(pool.Namespace, pool.Name, issued.Expires)
	return issued.RenewIn, nil
}
