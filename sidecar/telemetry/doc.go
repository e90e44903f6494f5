// Package telemetry exposes the numbers of the worker and the producer sidecar to Prometheus.
//
// Invariants: names and labels are a small closed set (no pod, job or message id is ever a label); a scrape reads one snapshot,
// so its numbers agree with each other.
package telemetry
