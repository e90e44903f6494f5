// Package podbuilder turns a flow or a pool into pods. It is pure: the same input gives the same bytes.
//
// Invariants:
//   - What the user wrote stays as written. The only edits of an app container are the preStop hook of a worker, which wraps the
//     user's own hook, the mounts that serve it and the sockets of the sidecar, and the variable that names a socket.
//   - The identity token, the private key and, in a producer, the API token are mounted in the runtime's container alone.
//   - Everything added passes the restricted Pod Security Standard.
//   - A revision is a hash of the user's template and flows. The runtime's image and resources have a revision of their own, so an
//     upgrade of the operator is never a change of the template.
package podbuilder
