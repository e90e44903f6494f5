// Package delivery holds the two machines of the work-pulling protocol: the Controller in the producer sidecar (backlog,
// bindings, dispatch, durable lane) and the ConsumerGroup in the worker sidecar (running handlers, and a Consumer for each flow
// that the worker pulls from: demand, buffer, settlements).
//
// Both are pure: Step takes an event and the time and returns actions. They do no I/O, start no goroutine, read no clock and
// draw no randomness; whoever hosts them (runtime/endpoint in a sidecar, runtime/simulation in a test) executes the actions
// and feeds the results back as events. Time is a monotonic offset since an arbitrary start: nothing here can compare two
// machines' clocks.
//
// Invariants (those of the contract), checked by the simulator after every step:
//   - I-1 no accepted job is in zero places: backlog, a binding, a back-off, the dead letters, or confirmed;
//   - I-2 no job is in two live places at once inside one session;
//   - I-3 the worker sequences of a binding are 1…current without a gap, and confirmed ≤ current ≤ demand seen;
//   - I-4 in flight per binding ≤ granted demand ≤ window cap;
//   - I-8 a confirmation exists only for a job whose handler finished;
//   - I-9 one worker never runs two handlers for one MessageID at the same time, also across bindings,
//     sessions and flows;
//   - I-11 at most one terminal failure per incarnation;
//   - I-12 memory of the Controller is O(granted demand + backlog), of the Consumer O(window), whatever peers send.
//
// What the two sides agree on beyond the messages themselves:
//   - A stored job is dispatched at once; Accept only records that the producer has forgotten it.
//   - A job's place changes when its settlement comes in, its worker is released when the settlement is durable. In between
//     it is "settling": it counts in the binding's window and among the dirty confirms, not as in flight.
//   - Requeue and hand-back restore store order: new jobs queue in a ring, returning ones in a heap, and the lower of the two
//     heads goes next. Jobs whose payload is out of memory are read back ahead of their turn and hold nobody up. Of those that are far from
//     their turn only the sequence, the size and the counters are kept, packed; a claim or a resubmission finds them by their sequence.
//   - The first try that ends with its worker goes back to the head at once, and so do the first two deliveries that no
//     handler started; after that a job waits, for it may be what kills its workers (G-X02). Only what was reported as
//     started is a try, so workers report a start within 50 ms.
//   - A late settlement of a binding that ended is ignored. What it would have said, the worker claims with the ticket of the
//     delivery: a success completes the job wherever it is by then, and a copy elsewhere is taken back (B-143, B-238).
//   - After a load, reloaded jobs wait until the known workers are back and have claimed what they hold, or for one liveness
//     period. A running job goes on in its worker's new binding, beyond the window if need be.
//   - Open credit of an endpoint that had to be reminded of it does not count against others: it has nothing to submit.
//     Nothing is taken back, so the backlog may exceed its bound by such credit.
//   - The handshake batch that failed is repeated unchanged, for its cursor speaks of exactly these stores.
package delivery
