// Package component knows the Kubernetes processes: how each is started.
//
// Invariants: everything here is pure, from settings to a command line or a configuration file; the control plane has the
// same command lines under the integration tests as in a cluster with nodes, so that what passes there holds here.
package component
