package flow

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/certs"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// ensureCertificate makes the producer's certificate.
func (r *Reconciler) ensureCertificate(ctx context.Context, flow *v1alpha1.WorkPullingFlow) (certs.Issued, error) {
	issued, err := r.Issuer.EnsureFor(ctx, flow, r.Recorder, certs.Serving{
		Namespace: flow.Namespace, Entry: runtimeconfig.ProducerName(flow.Name), Hosts: hosts(flow),
		Owner: *metav1.NewControllerRef(flow, v1alpha1.GroupVersion.WithKind(v1alpha1.KindWorkPullingFlow)),
	})
	if err == nil && issued.Missing == "" {
		r.Metrics.FlowCertificate(flow.Namespace, flow.Name, issued.Expires)
	}
	return issued, err
}
