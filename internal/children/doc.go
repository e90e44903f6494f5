// Package children keeps the objects that belong to a flow or a pool as they should be.
//
// Invariants:
//   - A child that is as it should be is not written.
//   - An object of the right name that belongs to something else is left alone and reported as a NameConflictError.
//   - Every child carries the managed-by label; the operator's cache holds nothing else of these kinds.
//   - Labels, annotations and fields that others added stay.
package children
