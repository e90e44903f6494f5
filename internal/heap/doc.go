// Package heap fits the garbage collector of a sidecar to the memory of its container.
//
// Invariants:
//   - The process stays below nine tenths of the limit as long as what it needs does, so that garbage alone gets nothing killed.
//   - The room below the limit is used: garbage is collected less often than in a process that does not know how much it may have.
//   - Who sets GOMEMLIMIT or GOGC has the last word.
package heap
