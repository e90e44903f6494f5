// Package harness drives a real Kubernetes the way a person does: with kubectl and helm, and with kill. The demo and the
// end-to-end tests share it.
//
// Invariants:
//   - It knows Workpulling only from outside: its objects, its charts, its metrics, the effects of its jobs.
//   - What it reads as proof comes from the effects store of config/samples, never from Workpulling's own counters.
package harness
