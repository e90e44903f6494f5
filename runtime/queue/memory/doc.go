// Package memory is the volatile WorkQueue: everything lives in this process and is gone with it.
//
// It keeps every rule of the contract but durability: epochs, fencing, first write wins, tombstones, dead letters. So a
// controller that is restarted inside its process loses nothing, and a process that ends loses all, which an operator asked
// for by choosing it. With Options.LossFile it also counts what it lost.
//
// Invariants:
//   - Nothing it returns and nothing it was given is shared with its state (G-133, G-137).
//   - Writers are serialised by a semaphore that gives up at the context's deadline (B-057); readers never wait for a Load.
//   - Memory is bounded by the unsettled jobs plus the ids of the deduplication window plus queue.MaxAuditLines.
//   - What grows with the deduplication window has no pointers, so that a garbage collection has nothing to follow in it. An id is found
//     by its hash and then compared; no answer depends on a hash.
package memory
