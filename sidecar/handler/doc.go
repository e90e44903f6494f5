// Package handler invokes the worker's app: over plain HTTP, one POST per delivery, as a CloudEvent in binary mode (HTTP), or over the
// gRPC streams that the processes of the app open on a Unix socket, several deliveries a frame (Streams).
//
// Invariants, whichever way:
//   - Only what the app plainly says is success; everything that is not understood is a failure (B-180). Over HTTP that is a 2xx answer
//     without an outcome header, on a stream RESULT_CONFIRMED.
//   - A delivery reaches the app at most once per Handle: nothing here retries, and a request is repeated on another connection only if
//     not one byte of it was written (I-9).
//   - An abandoned attempt is not cut off: Handle returns when the app answers or its connection breaks, so that the slot stays
//     taken while the app works.
//   - What no app was sent is no attempt: a failed dial, or a delivery that no stream has taken yet, is handed back. What may have been
//     sent and was not answered is a failure.
//   - Payloads and answer bodies never reach a log or a reason.
//
// Of streams:
//   - An app that does not read makes nothing grow: what waits for it is bounded by the concurrency of the worker, and what it is told about
//     its own mistakes by maxUnread.
//   - A stream replaces no other. It ends by itself, by its rules being broken, or with the sidecar.
package handler
