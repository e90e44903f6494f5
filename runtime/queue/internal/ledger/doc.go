// Package ledger holds the rules of the WorkQueue contract as pure functions: given what a store holds and a batch, it says
// what changes, or why nothing may change. Back-ends supply the look-ups, the atomicity and the durability, so none of them
// writes the rules down a second time.
//
// Invariants:
//   - An error means no change: Apply works on copies and hands out changes only when the whole batch is legal.
//   - The first write of an id owns its sequence, digest and bytes (G-126, G-127); sequences rise by one and are never reused.
//   - Counters never decrease except by Redrive.
//   - An id may be forgotten only when it is settled and accepted; its window starts at the later of the two (G-130).
//   - No I/O, no clock, no randomness.
package ledger
