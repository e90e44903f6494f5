// Package bed runs the programs of the tutorials as processes of their own, against the real runtime on a queue on disk, and breaks them.
//
// Invariants:
//   - Nothing outside of tests imports it.
//   - A program is the test binary itself, started anew, so that what is killed is what was compiled.
//   - What was done is judged by sets of MessageIDs, never by counts alone.
package bed
