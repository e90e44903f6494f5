// Package flow reconciles WorkPullingFlows: the producer's StatefulSet and what it needs, the flow's status, and its end.
//
// A reconcile is observe → plan (pure) → apply → status (pure) → patch once → events after success.
//
// Invariants:
//   - Nothing here is on a job's path: with the operator gone, delivery goes on.
//   - An edit of anything but the producer's template changes a ConfigMap and no pod. A new runtime follows runtime.updatePolicy.
//   - The volume of a queue is deleted with the flow and by nothing else: it outlives the StatefulSet, and a producer is not started
//     on a volume other than the one that holds the flow's jobs.
//   - A pod is deleted by force only where the queue is shared and its node is gone or unreachable: the epoch fences what may still run.
//   - A flow is let go only when its deletionPolicy is satisfied, by evidence from the producer, or when its namespace goes. What it
//     waits for is in its Ready condition, with what a person can do.
//   - Numbers in the status come from the producer's reports. Without one they are absent, but for the number of lost jobs: what is lost
//     stays lost, so it never falls.
package flow
