// Package config reads the document that the operator writes for a sidecar, and tells when it changed.
//
// Invariant: a document that cannot be read or decoded never replaces one that could; the sidecar goes on with the last good
// one and says so once per change.
package config
