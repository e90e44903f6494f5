// Package protocol holds the words of the work-pulling protocol: its messages, their limits and their validation.
//
// The types here are plain values. The machines in runtime/delivery exchange them, runtime/protocol/v1 is their wire form
// (protobuf), and runtime/transport carries that over gRPC.
//
// Invariants:
//   - A value that passes its Validate method can be stored, dispatched and confirmed; everything else is refused at the
//     door, never acknowledged, never handed to a handler, and never a fault of the process (A-021, A-022, B-200…B-205).
//   - The limits are constants: a limit that the sender can raise is no limit.
//   - Nothing in this package does I/O, reads a clock or draws randomness.
package protocol
