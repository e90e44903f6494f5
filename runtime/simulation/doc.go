// Package simulation runs the machines of runtime/delivery in a world made of one seed: a virtual clock, a network that
// drops, repeats, reorders and cuts, a work queue that fails before and after its commits, submitters, workers with handlers
// that succeed, fail, hang and kill, and a chaos that crashes, pauses, replaces, drains and takes over anything at any step.
//
// The world is single-threaded and deterministic: the same seed and profile give the same trace, byte for byte, so that every
// violation is reproduced by its seed alone. Nothing here sleeps or reads a clock.
//
// After every step the invariants of the contract are checked from outside, from what the machines say and what the queue
// committed, never from the machines' own bookkeeping alone:
//
//   - I-1 an unsettled row that a controller was told of is held by it;
//   - I-2 a job is in one live binding at a time, and a job whose confirm was taken over is not dispatched again;
//   - I-3 worker sequences of a binding are contiguous and never above the demand that the worker sent;
//   - I-4 deliveries in flight never exceed the granted window;
//   - I-5 only the newest epoch writes;
//   - I-6 store sequences rise by one and belong to one MessageID;
//   - I-7 every worker sees the bytes that were stored first;
//   - I-8 a durable confirm, and every word of success to a submitter, has a finished handler behind it;
//   - I-9 a worker process never runs two handlers for one MessageID at a time, nor more handlers than its concurrency;
//   - I-10 after the world has healed everything accepted ends confirmed or a dead letter for a reason, and all falls quiet;
//   - I-11 a controller fails at most once, only for a cause, and is silent afterwards;
//   - I-12 what the machines hold is bounded by grants, backlog and windows.
//
// Besides: open grants obey the credit rule, in which what is being stored counts, a token carries one job, nobody's acceptance is
// invented, a settlement never changes, a submitter's "stored" is true, a dead letter has its reason, what came back untouched goes
// before what was stored later, a failed try is written, a fenced writer ends at once, a worker may forget a success only when it is
// durable and does not run again what it has finished, no flow of a worker starves another, both ends of a binding keep up their
// heartbeat in any step, and no machine asks for a timer in the past twice.
//
// class.go lists the misfortunes of the contract and the faults that stand for them; docs/design/evidence.md says what is not
// modelled. The directory mutants holds deliberate bugs that the simulator must find (make mutants).
package simulation
