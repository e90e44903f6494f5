// Package state remembers what a cluster has put on this machine, so that it can be taken away again.
//
// Invariants: a thing is noted before it is made, or is made such that it vanishes with its maker until it is noted; the file is
// replaced whole, never half written; a process is known by its id, start time and boot, so a reused id is never signalled.
package state
