// Package apiclient asks an API server the few questions that starting a cluster needs, without the weight of client-go.
//
// Invariant: it only reads.
package apiclient
