package flow

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/certs"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// ensureCertificate makes the producer's certificate.
func (r *Reconciler) ensureCertificate(ctx context.Context, flow *v1alpha1.WorkPullingFlow) (certs.Issued, error) {
	before, err := certs.RenewBefore(flow)
	if err != nil {
		r.Recorder.Eventf(flow, nil, corev1.EventTypeWarning, "AnnotationInvalid", "Renewing", "%s", err.Error())
	}
	issued, err := r.Issuer.Ensure(ctx, certs.Serving{
		Namespace: flow.Namespace, Entry: runtimeconfig.ProducerName(flow.Name), Hosts: hosts(flow), RenewBefore: before,
		Owner: *metav1.NewControllerRef(flow, v1alpha1.GroupVersion.WithKind(v1alpha1.KindWorkPullingFlow)),
	})
	if err != nil {
		return certs.Issued{}, err
	}
	if issued.News {
		r.Recorder.Eventf(flow, nil, corev1.EventTypeWarning, "CertificateTrouble", "Issuing", "%s", issued.Trouble)
	}
	if issued.Missing == "" {
		r.Metrics.FlowCertificate(flow.Namespace, flow.Name, issued.Expires)
	}
	return issued, nil
}
