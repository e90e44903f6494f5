package certs

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
