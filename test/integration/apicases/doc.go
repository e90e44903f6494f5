// Package apicases is the table of what the API accepts, refuses and defaults.
// It is run twice: offline with the API server's own validation code by the unit
// tests of the API package, and against a real API server by the integration
// suite.
//
// Invariants:
//
//   - Every CEL rule of a CRD has a case that it refuses, and every range a case
//     on both sides of both bounds; the unit tests fail when one is missing.
//   - A case is a merge patch on the smallest valid object, so that it shows
//     exactly what matters.
package apicases
