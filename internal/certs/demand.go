package certs

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
)

// RenewBefore is the moment in the annotation by which a person asks for new certificates; the zero time where nobody does.
func RenewBefore(obj metav1.Object) (time.Time, error) {
	text, found := obj.GetAnnotations()[v1alpha1.AnnotationRenewBefore]
	if !found {
		return time.Time{}, nil
	}
	moment, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("the annotation %s is no moment such as 2006-01-02T15:04:05Z: %q", v1alpha1.AnnotationRenewBefore, text)
	}
	// A certificate knows whole seconds only.
	return moment.Truncate(time.Second), nil
}

// EnsureFor is Ensure for a flow or a pool: its annotation says what RenewBefore of the certificate is, and what is wrong is told in Events
// about it.
func (i *Issuer) EnsureFor(ctx context.Context, owner client.Object, recorder events.EventRecorder, s Serving) (Issued, error) {
	var err error
	if s.RenewBefore, err = RenewBefore(owner); err != nil {
		recorder.Eventf(owner, nil, corev1.EventTypeWarning, "AnnotationInvalid", "Renewing", "%s", err.Error())
	}
	issued, err := i.Ensure(ctx, s)
	if err != nil {
		return Issued{}, err
	}
	if issued.News {
		recorder.Eventf(owner, nil, corev1.EventTypeWarning, "CertificateTrouble", "Issuing", "%s", issued.Trouble)
	}
	return issued, nil
}
