// Package worker is the worker half of the sidecar: it wires the consumer endpoint to the app over HTTP or streams, the drain socket,
// the operator's control service, the probes and the metrics.
//
// Invariants:
//   - The order of the end: the drain begins with prestop or the operator's StartDrain; SIGTERM begins it if nothing
//     did. Demand stops at once, unstarted jobs go back, running ones finish, and the stream stays open until every settlement was
//     taken over or the grace period is spent. Only then does the process end.
//   - A part that fails ends all of them at once, whatever the app does: kubelet starts a whole sidecar anew, never half of one.
//   - An edit of the pool takes effect without a restart; a broken one changes nothing.
package worker
