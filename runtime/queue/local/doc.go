// Package local is the WorkQueue on one volume: a journal that is synced once a group, over an embedded bbolt tree. "Stored" means synced to
// the disk.
//
// Why these two, with figures: docs/design/local-queue.md.
//
// Invariants:
//   - An answer without an error was written and synced before it was given, and nobody sees what is not. Batches that arrive while a
//     group is synced share the next one; each is all or nothing, and if the shared write fails none of them is told anything about the
//     others. A group whose write failed is made undone before anything else happens.
//   - Epoch, cursor, rows and indexes change in one group (G-123); ownership changes only in a group of its own.
//   - What the journal holds and the tree does not lies over the tree as one or two layers, also after a restart. A layer is written
//     to the tree in the background, as whole entries, so that doing it again after a crash changes nothing; its half of the journal
//     is used again only when the tree has it all.
//   - Every record carries a checksum that covers its key, every group one that covers its place in the journal. What does not decode, or
//     contradicts another record, is queue.ErrConflict, never a guess; a file that is shorter than its own account of itself is not opened.
//   - A file of a newer format or of another flow is not touched. One process at a time holds the directory.
//   - A full disk is a retriable error for stores: nothing is lost, and the next one succeeds as soon as there is space on the disk or
//     in the file. It is none for what stores nothing (B-022): the journal has its blocks from the start, and the tree owns a reserve that
//     stores leave alone.
//   - No operation waits longer than its context, whatever the disk does (B-057), and none keeps a caller's memory.
//   - Heap use does not depend on the number of rows: a layer is bounded in rows and bytes. The tree is memory-mapped, so the kernel may show
//     its cached pages as resident; it takes them back when it needs to.
//
// The tree's file only grows to its high-water mark and the reserve; space of settled jobs is used again, not returned.
package local
