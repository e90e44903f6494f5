// Package intake is the HTTP door for jobs: CloudEvents and plain bodies in, durable receipts out.
//
// Invariants:
//   - 2xx means stored: durably, or, where the queue is volatile, 202 with "Workpulling-Durability: volatile". Every other
//     status means that this request stored nothing new, except 500, 503 and 504, which say so themselves; repeating is always safe,
//     because the first write of an id stands. A stream has such a status for each of its lines.
//   - Every error is a problem (RFC 9457) of a declared Kind, whoever finds it: a handler, the mux, or the guard against panics.
//   - A MessageID is "source|id" of a CloudEvent, or "|subject|key" of a plain body with an Idempotency-Key ("|%neighbour:account|key"
//     without a token); neither can be made to look like the other. Longer ones are replaced by their SHA-256, so that they still deduplicate. A plain body
//     without a key is refused, because its repeat could not be told from a new job.
//   - Nobody is served without a ServiceAccount token that may do what it asks, except inside the pod, over the Unix socket, and, where the flow
//     trusts its namespace, live pods of it, by their address. Whoever presents a token is judged by it. Without one there is no way to dead
//     letters and orphans.
//   - Bodies are bounded while they are read, one by one and all together, and a stream is read no further than it is stored and answered;
//     nothing of a body reaches a log or an error text.
//   - A process that stands by answers for the active one: it passes a request on, once, with the caller's own token, and judges nobody.
//   - A receipt is acknowledged once the answer was written, so that an id is not forgotten before its submitter could know.
package intake
