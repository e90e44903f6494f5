// Package prestop is what an app container runs before it gets its SIGTERM: wait for the worker's drain, then run the hook that
// the user's own template asked for.
//
// Invariants:
//   - The user's hook runs whatever became of the drain, and its exit decides ours. A hook that cannot be run does not shorten the drain.
//   - Waiting ends with the drain or with its timeout; a sidecar that is not there ends it at the timeout, never later.
package prestop
