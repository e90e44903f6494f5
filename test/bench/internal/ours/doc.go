// Package ours are the contestants of this repository: the producer and the workers in one process, in processes of their own over gRPC,
// and behind the two sidecars. All features are on: identity, deduplication, redelivery, fencing, claims, heartbeats.
package ours
