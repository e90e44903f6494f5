// Command refdoc writes the reference under docs/reference from what is in the
// code: the fields of both kinds from the CRDs, conditions, reasons, labels and
// annotations from the constants of the API package, the metrics from what the
// processes register, and the operator's flags from its flag set.
//
// Invariants:
//
//   - The same sources give the same bytes.
//   - A metric without a sample, which would be missing on the page, is an error.
//   - A constant without a comment, and a field without a description, is an error.
//   - Nothing outside the API package makes a reason of its own; a test looks.
package main
