// Package controlplane runs etcd, the API server and the controller manager on loopback for as long as its caller lives: the
// Kubernetes of the integration tests.
//
// Invariants: several at once never meet (sockets in private directories, one port held for the whole life); all data is in
// one temporary directory, removed at the end, and by the next run if the end was a kill -9; no process outlives this one.
package controlplane
