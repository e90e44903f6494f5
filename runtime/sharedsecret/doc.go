// Package sharedsecret is identity where there is no Kubernetes: a directory with a random secret and a server certificate, made for
// one flow's processes on one machine, or on a few that share the two client files.
//
// Invariants:
//   - There is no mode without it: a producer outside of Kubernetes serves TLS 1.3 and asks every peer for the secret.
//   - The secret has 130 random bits, is compared in constant time, and appears in no log or error.
//   - Whoever holds the secret is trusted with everything: the name in a token tells workers apart and restrains nobody.
//   - The key of the certificate authority is never written: nothing can be signed with it later.
package sharedsecret
