// Package patch writes an object's own status and finalizers.
//
// Invariants:
//   - Nothing is written where nothing differs.
//   - Only patches, never a whole object: other writers' fields and their ownership stay as they are.
package patch
