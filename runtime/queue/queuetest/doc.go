// Package queuetest is the suite that every WorkQueue passes (contract B-040…B-060, B-238). A back-end calls Run from
// one of its tests and says how to make, open and, where it can, damage and hang its storage.
//
// Invariants:
//   - The suite knows the contract alone; its model shares no code with any back-end.
//   - It waits for conditions, never for time: the clock that ages tombstones is its own.
//   - A failure of the randomised part prints the seed and the shrunken sequence of steps (see pgregory.net/rapid).
//
// QUEUETEST_ROWS sets the number of rows of the streaming test (default 20,000; the contract's figure is 1,000,000).
package queuetest
