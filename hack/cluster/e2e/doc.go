// Package e2e brings real clusters up and down, as root on a machine with Go:
//
//	go test -tags cluster -v -timeout 15m ./e2e
//
// Invariant: a test that ends, however it does, leaves the machine as it found it; that is one of the things tested.
package e2e
