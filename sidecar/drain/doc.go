// Package drain is the pod-internal door to a worker's drain: an HTTP endpoint on a Unix socket that the prestop program calls
// before the app gets its SIGTERM.
//
// Invariants:
//   - POST /drain begins the drain at once and answers when nothing runs any more and every settlement was taken over, or when
//     the caller's time is up; it never cancels a running job.
//   - The socket is in an emptyDir: only containers of the same pod can reach it. No other way in can stop a sidecar.
package drain
