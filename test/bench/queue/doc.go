// Command queue measures the WorkQueue back-ends beside a peer engine in one run, on one disk, and prints the figures and their
// ratios to queue/local. It is a module of its own so that the peer stays out of the product.
//
// The peer is Pebble, the other engine that was considered for queue/local, with the same records written straight to it: it
// does the look-ups and writes of the contract and none of its checks, so the comparison favours the peer.
//
// Invariants: payloads are random bytes (an engine that compresses gains nothing), every commit of local and the peer is
// synced, all contestants get the same ids in the same order, and absolute figures are of one machine only: judge ratios.
//
// The disk figures of PostgreSQL are 0: it keeps its data elsewhere.
//
//	go run . -dir /some/disk            about two minutes
//	go run . -dir /some/disk -postgres postgres://user@/database?host=/socket/directory
//	go run . -dir /some/disk -rows 1000000
package main
