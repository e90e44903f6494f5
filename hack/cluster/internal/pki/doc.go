// Package pki makes the keys and certificates of a local cluster.
//
// Invariants: private keys are written with mode 0600 and never leave the cluster's directory; every authority signs for
// one purpose only (clients and servers of the cluster, the front proxy); a certificate names exactly what it is used for.
package pki
