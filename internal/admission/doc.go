// Package admission is the part of the API server that defaults and validates custom resources, without the server. It runs the API
// server's own libraries on a CustomResourceDefinition, so that no default and no rule is written twice.
//
// Invariants:
//   - What a Validator takes, an API server with the same definition takes, with the same defaults; what it refuses, the server refuses
//     with the same words. Unknown fields are errors, as with `kubectl apply --validate=strict`.
package admission
