// Package manifest reads Kubernetes manifests from files, directories and streams, for programs that run them without an API server.
//
// Invariants:
//   - Objects of this API are defaulted and validated as the API server does it, by internal/admission: what this package returns, a
//     cluster with the same CustomResourceDefinitions would have taken.
//   - An error names the file and the line, and all errors of a run are reported together.
//   - Nothing is left out silently: an object of another kind is named in Set.Skipped.
package manifest
