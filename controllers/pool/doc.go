// Package pool reconciles WorkerPools. It owns worker Pods directly, because choosing exactly which worker leaves is the product.
//
// A reconcile is observe → plan (pure) → apply → status (pure) → patch once → events after success.
//
// Invariants:
//   - Live workers never exceed replicas, plus the surge of a rollout. Reads wait for our own writes (the client's read-your-writes
//     consistency); after a start, and after any write with an unknown outcome, pods are read from the API server itself. So a stale
//     cache never creates one worker too many.
//   - A worker that may hold a job is deleted only after it said that it is drained, or after the drain timeout. No answer is "busy".
//   - A worker that leaves is out of status.selector and status.replicas from the moment it is asked to drain.
//   - spec is never written; spec.replicas belongs to whoever writes the scale subresource.
//   - Ownership is decided by the controller reference, never by a label. No pod is ever deleted without its UID, or by force.
//   - Deadlines are measured on this process's monotonic clock. A change of leader may lengthen a drain, never shorten it.
package pool
