// Package conditions writes metav1.Conditions.
//
// Invariants:
//   - Every condition carries the generation it is about.
//   - A message fits the API's limit; a longer one is cut at a character, never inside one.
//   - The transition time moves only with the status of the condition, so an unchanged condition is an unchanged object.
package conditions
