// Package endpoint is the impure shell round the machines of runtime/delivery: it gives them goroutines, time, a queue,
// and streams. Producer hosts a Controller, Worker a group of Consumers, and Client is a producer endpoint at the other end of a stream.
// Sidecars are made of these, and so is the Go API in the root of the module.
//
// Invariants:
//   - One goroutine owns each machine and steps it; it does no I/O and never waits for a peer, the queue or a handler.
//   - An endpoint hosts one machine for life: what failed for good is recovered by a new endpoint under a new epoch (B-237).
//   - A host that notices that it was itself paused longer than a heartbeat tells its machine before anything else.
//   - Every call that a caller waits for ends: with its answer, its context, or ErrUnavailable when the endpoint stops.
//   - A submission gets one answer, whether its caller waits or has posted it, and however often its stream breaks.
//   - Every StartHandler is answered by exactly one HandlerDone, also when the handler panics.
//   - A terminal failure is logged and reported once; the endpoint stays up, refuses, and says why (G-162).
package endpoint
