package flow

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/certs"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// ensureCertificate makes the producer's certificate, and says when to look at it again.
func (r *Reconciler) ensureCertificate(ctx context.Context, flow *v1alpha1.WorkPullingFlow) (time.Duration, error) {
	before, err := certs.RenewBefore(flow)
	if err != nil {
		r.Recorder.Eventf(flow, nil, corev1.EventTypeWarning, "AnnotationInvalid", "Renewing", "%s", err.Error())
	}
	issued, err := r.Issuer.Ensure(ctx, certs.Serving{
		Namespace: flow.Namespace, Entry: runtimeconfig.ProducerName(flow.Name), Hosts: hosts(flow), RenewBefore: before,
	})
	if err != nil {
		return 0, err
	}
	r.Metrics.FlowCertificate(flow.Namespace, flow.Name, issued.Expires)
	return issued.RenewIn, nil
}
