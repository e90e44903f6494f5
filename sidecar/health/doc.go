// Package health answers kubelet's probes over HTTP.
//
// Invariant: readiness is a hint for people and for rollouts; nothing in the delivery path reads it.
package health
