// Package fencing decides who may bind to a flow and who may submit to it, from tokens and from what the API server knows. It is
// the only package of the runtime that talks to the API server.
//
// Invariants:
//   - Identity is what a token of our own audience says that is signed with a key of the cluster, or what the API server says about it, and
//     what that holds about the pod that the token is bound to; nothing else that the peer claims counts (G-080).
//   - "You are refused" and "this cannot be decided now" are never mixed up: an unreachable API server, or a refused
//     credential of our own, is the latter, and the caller tries again (B-091).
//   - No outage of the API server ends a binding: only the deletion of a pod's object is evidence, never its absence from a
//     cache that is not filled. What an earlier process saw counts only while this one has been told nothing, and never against evidence.
//   - Load on the API server is bounded whatever peers do: reviews are cached for seconds, coalesced and rate limited, workers
//     and submitters apart (B-111).
//   - Classifiers are pure functions; clients only fetch what they judge.
package fencing
