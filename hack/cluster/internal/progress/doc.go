// Package progress tells a person what a slow command is doing.
//
// Invariant: anything slower than a few seconds says at least every ten seconds that it is still alive.
package progress
