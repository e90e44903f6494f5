// Package telemetry exposes a worker sidecar's numbers to Prometheus.
//
// Invariants: names and labels are a small closed set (no pod, job or message id is ever a label); a scrape reads one snapshot,
// so its numbers agree with each other.
package telemetry
