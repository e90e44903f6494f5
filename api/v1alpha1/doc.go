// Package v1alpha1 is the API of Workpulling: the kinds WorkPullingFlow and
// WorkerPool of the group workpulling.dev.
//
// Invariants:
//
//   - The package imports apimachinery and the core API types, nothing else.
//   - Every default is a marker in this package, so that what the API server
//     stores is what every component sees; no component invents a default of
//     its own.
//   - Everything a single object can decide is refused by the schema (ranges,
//     CEL rules). What needs a second object becomes a condition.
//   - Durations are integers with their unit in the name, switches are enums,
//     lists declare their type, and conditions are metav1.Condition.
//   - Condition types and reasons are constants of this package (conditions.go),
//     and so is every label, annotation, finalizer and reserved name (labels.go).
//   - Status is written by the operator only. A count that is absent is unknown,
//     which is not the same as zero.
//
// +kubebuilder:object:generate=true
// +groupName=workpulling.dev
package v1alpha1
