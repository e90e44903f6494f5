// Package delivery holds the two machines of the work-pulling protocol: the Controller in the producer sidecar (backlog,
// bindings, dispatch, durable lane) and the Consumer in the worker sidecar (demand, buffer, running handlers, settlements).
//
// Both are pure: Step takes an event and the time and returns actions. They do no I/O, start no goroutine, read no clock and
// draw no randomness; whoever hosts them (runtime/endpoint in a sidecar, runtime/simulation in a test) executes the actions
// and feeds the results back as events. Time is a monotonic offset since an arbitrary start: nothing here can compare two
// machines' clocks.
//
// Invariants (contract B.17), checked by the simulator after every step:
//   - I-1 no accepted job is in zero places: backlog, a binding, a back-off, the dead letters, or confirmed;
//   - I-2 no job is in two live places at once inside one session;
//   - I-3 the worker sequences of a binding are 1…current without a gap, and confirmed ≤ current ≤ demand seen;
//   - I-4 in flight per binding ≤ granted demand ≤ window cap;
//   - I-8 a confirmation exists only for a job whose handler finished;
//   - I-9 one worker never runs two handlers for one MessageID at the same time, also across bindings and sessions;
//   - I-11 at most one terminal failure per incarnation;
//   - I-12 memory of the Controller is O(granted demand + backlog), of the Consumer O(window), whatever peers send.
package delivery
