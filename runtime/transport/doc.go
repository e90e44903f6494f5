// Package transport carries the work-pulling protocol over gRPC: TLS, tokens, streams and their bounds.
//
// Invariants:
//   - TLS 1.3 only, with certificates, CA bundles and tokens read anew when they are needed, so that a rotation interrupts
//     nothing and needs no restart (B-255).
//   - Every connection attempt is a new dial with a new name look-up: no hidden back-off and no remembered address stands
//     between a worker and a producer that has come back.
//   - A peer can neither block its host nor fill its memory: what is sent goes through a bounded Outbox whose overflow ends
//     the stream, frames are bounded, and malformed ones use up a budget (B-204).
//   - The identity of a peer is what an Authenticator says of its token, never what its messages claim (G-080).
//   - A failed send is message loss and no error of the sender (G-078).
package transport
