// Package flowstats receives what the producers report about their flows, and publishes it to the reconcilers.
//
// Invariants:
//   - A report is believed only from a pod that proves, by a token of our audience bound to it, to be a pod of that flow's StatefulSet.
//   - What is published changes at most once an interval, except where a person or a decision waits for it: another state, a failure,
//     a full or available queue, the first or last dead letter, a worker more or fewer. So a busy flow is not a stream of status writes.
//   - Where several producers share a queue, the flow's numbers are those of the one with the highest epoch; who stands by has none.
//   - Absent is not zero: without a report there is no number.
//   - Only the leader listens. A producer that meets another replica of the operator is refused at once and connects again.
package flowstats
