package pool

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/certs"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// ensureCertificate makes the certificate of the workers.
func (r *Reconciler) ensureCertificate(ctx context.Context, pool *v1alpha1.WorkerPool) (certs.Issued, error) {
	before, err := certs.RenewBefore(pool)
	if err != nil {
		r.Recorder.Eventf(pool, nil, corev1.EventTypeWarning, "AnnotationInvalid", "Renewing", "%s", err.Error())
	}
	issued, err := r.Issuer.Ensure(ctx, certs.Serving{
		Namespace: pool.Namespace, Entry: runtimeconfig.WorkerName(pool.Name), RenewBefore: before,
		Hosts: []string{runtimeconfig.WorkerHost(pool.Name, pool.Namespace)},
		Owner: *metav1.NewControllerRef(pool, v1alpha1.GroupVersion.WithKind(v1alpha1.KindWorkerPool)),
	})
	if err != nil {
		return certs.Issued{}, err
	}
	if issued.News {
		r.Recorder.Eventf(pool, nil, corev1.EventTypeWarning, "CertificateTrouble", "Issuing", "%s", issued.Trouble)
	}
	if issued.Missing == "" {
		r.Metrics.PoolCertificate(pool.Namespace, pool.Name, issued.Expires)
	}
	return issued, nil
}
