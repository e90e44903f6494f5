package podhealth

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/workpulling/workpulling/api/v1alpha1"
)

// Refusal turns the API server's answer to the creation of a pod into a problem. The API has no machine-readable reason for most of
// them, so the text is read.
func Refusal(err error) Problem {
	text := nameless(err)
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(text, "exceeded quota"):
		return Problem{v1alpha1.ReasonQuotaExceeded, fmt.Sprintf("a ResourceQuota refuses the pod: %s; raise the quota or lower the requests", text)}
	case apierrors.IsForbidden(err) && strings.Contains(text, "must specify"):
		return Problem{v1alpha1.ReasonQuotaExceeded, fmt.Sprintf("a ResourceQuota refuses the pod: %s; set these in the template", text)}
	case apierrors.IsForbidden(err) && strings.Contains(text, "service account"):
		return Problem{v1alpha1.ReasonServiceAccountNotFound, fmt.Sprintf("the ServiceAccount of the template is missing: %s; create it or correct the name", text)}
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return Problem{v1alpha1.ReasonTemplateInvalid, fmt.Sprintf("the API server refuses the pod: %s; edit the template", text)}
	}
	return Problem{v1alpha1.ReasonReconcileFailed, fmt.Sprintf("creating the pod: %s", text)}
}

// nameless is the text of a refusal without the name of the refused pod: each try has another name, and a condition whose message
// changed with each would be written again and again.
func nameless(err error) string {
	text := err.Error()
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		if details := answer.Status().Details; details != nil && details.Name != "" {
			text = strings.ReplaceAll(text, fmt.Sprintf(" %q", details.Name), "")
		}
	}
	return text
}

// IsAnswer says whether err is the API server's own answer, so that it is certain that nothing was created. After a timeout or a broken
// connection it is not.
func IsAnswer(err error) bool {
	reason := apierrors.ReasonForError(err)
	return reason != "" && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) && !apierrors.IsInternalError(err)
}
