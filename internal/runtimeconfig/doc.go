// Package runtimeconfig is the contract between the operator, which builds pods, and the runtime inside them: file paths,
// ports, names, and the JSON document in the ConfigMap that each sidecar reads and re-reads.
//
// Invariants:
//   - Everything that may change without a new pod is in the document, not in the pod: an edit of anything but the template
//     leaves pod UIDs alone.
//   - The document holds no secret.
//   - Unknown fields are ignored and missing ones have the API's defaults, so that operator and sidecar may differ by one minor.
package runtimeconfig
