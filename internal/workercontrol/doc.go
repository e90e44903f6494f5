// Package workercontrol asks a worker's sidecar whether it is busy, and cordons, drains and takes it back.
//
// Invariants:
//   - The operator presents a client certificate of its own authority and verifies the name of the pool's workers, whatever address it
//     dials.
//   - Every command names the UID of the pod it means, because an address may belong to another pod by now.
//   - No answer is no proof of idleness: an error means busy.
package workercontrol
