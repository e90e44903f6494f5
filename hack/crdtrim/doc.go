// Command crdtrim rewrites CRDs that controller-gen made, so that an embedded
// pod template costs little and can be checked by CEL rules.
//
// Invariants:
//
//   - The schema of the template stays complete: nothing a user writes is pruned,
//     and a misspelt field is still refused by strict validation. Only the
//     descriptions of core types go; `kubectl explain pod.spec` has them.
//   - Descriptions of our own fields stay.
//   - The lists and names that CEL rules walk over get an upper bound, because
//     the API server estimates the cost of a rule from the bounds.
package main
