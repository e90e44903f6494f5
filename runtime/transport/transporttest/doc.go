// Package transporttest gives tests a certificate authority, tokens that need no API server, and a TCP proxy that fails on demand.
//
// Invariant: nothing outside of tests imports it.
package transporttest
