// Package queue defines the WorkQueue contract: what the work-pulling controller needs from a durable store.
//
// Back-ends live in sub-packages (memory, local); queuetest is the suite that each of them passes.
//
// Invariants, all checked inside the store's own transaction:
//   - Only the newest epoch writes. Load issues a strictly higher epoch than any before and fences all earlier ones (G-121…G-124).
//   - The first write of a MessageID is authoritative; nothing overwrites its sequence, bytes or digest (G-126, G-127).
//   - Store sequences increase by one from 1 and are never reused, also when everything is confirmed (I-6, B-053).
//   - A row leaves only when it is confirmed and accepted and its tombstone has outlived the deduplication window (G-130).
//   - What Apply returned without an error has reached the disk, unless the back-end says that it is volatile.
package queue
