// Package handler invokes the worker's app over plain HTTP: one POST per delivery, as a CloudEvent in binary mode.
//
// Invariants:
//   - Only a 2xx answer without an outcome header is success; everything that is not understood is a failure (B-180).
//   - A delivery reaches the app at most once per Handle: nothing here retries, and the transport repeats a request
//     only if not one byte of it was written (I-9).
//   - An abandoned attempt is not cut off: Handle returns when the app answers or its connection breaks, so that the slot stays
//     taken while the app works.
//   - A failed dial is no attempt: it is handed back.
//   - Payloads and answer bodies never reach a log or a reason.
package handler
