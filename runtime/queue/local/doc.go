// Package local is the WorkQueue on one volume: an embedded bbolt file with group commit. "Stored" means synced to the disk.
//
// Why bbolt, with figures: docs/design/local-queue.md.
//
// Invariants:
//   - An answer without an error was written and synced before it was given. Batches that arrive while a commit is under way
//     share the next one; each is all or nothing, and if the shared commit fails none of them is told anything about the others.
//   - Epoch, cursor, rows and indexes change in one transaction (G-123); ownership changes only in a transaction of its own.
//   - Every record carries a checksum that covers its key. What does not decode, or contradicts another record, is
//     queue.ErrConflict, never a guess; a file that is shorter than its own account of itself is not opened.
//   - A file of a newer format or of another flow is not touched. One process at a time holds the directory.
//   - A full disk is a retriable error for stores: nothing is lost, and the next one succeeds as soon as there is space on the disk or
//     in the file. It is none for what stores nothing (B-022): the file owns a reserve that stores leave alone.
//   - No operation waits longer than its context, whatever the disk does (B-057), and none keeps a caller's memory.
//   - Heap use does not depend on the number of rows. The file is memory-mapped, so the kernel may show its cached pages as
//     resident; it takes them back when it needs to.
//
// The file only grows to its high-water mark and the reserve; space of settled jobs is used again, not returned.
package local
