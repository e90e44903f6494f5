// Package certs is the operator's certificate authority and the server certificates that it hands out.
//
// Invariants:
//   - The authority lives in one Secret of the operator's namespace. Any number of replicas may start at once: one creates it, the
//     others read it. A replica that still knows a deleted or damaged authority writes the same one again within syncEvery.
//   - An authority that had to be made anew leaves in each namespace's bundle the older ones that are there, for the life of a
//     server certificate. The operator itself trusts none of those, and hands out certificates of the new one at once.
//   - A rotation breaks no connection: a new authority signs only after it has been in every trust bundle for as long as kubelets need, and
//     an old one is trusted until every certificate that it signed has been replaced for as long. Only the leader rotates.
//   - A server certificate is valid for 30 days and renewed at half of that, so what a pod mounts is good for 15 days without any
//     operator. It is also replaced where it is not of the authority that signs, does not name its host, or a person asks for another.
//   - Private keys are in Secrets and in memory, never in a log or an error.
package certs
