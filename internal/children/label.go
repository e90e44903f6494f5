package children

import (
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// LabelManagedBy and ManagedBy mark every object that the operator makes.
const (
	LabelManagedBy = runtimeconfig.LabelManagedBy
	ManagedBy      = "workpulling-operator"
)

// Mark adds the managed-by label to obj.
func Mark(obj client.Object) {
	labels := maps.Clone(obj.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[LabelManagedBy] = ManagedBy
	obj.SetLabels(labels)
}
