// Package builders makes flows and pools for tests: MakeFlow("orders", "shop").Memory().Obj().
//
// Invariants:
//
//   - What a builder makes without further calls is what the API server stores
//     for the smallest manifest: every default is set. A test holds it to the
//     defaults of the CRDs.
//   - Obj returns a copy; a builder can be used as a template for several objects.
package builders
