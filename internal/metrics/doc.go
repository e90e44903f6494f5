// Package metrics defines the operator's own metrics. The controller-runtime's are served beside them.
//
// Invariants:
//   - Every name starts with workpulling_operator_ and every definition is in this package.
//   - A series of an object disappears with the object.
package metrics
