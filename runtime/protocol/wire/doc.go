// Package wire converts between the protocol's values and their protobuf form.
//
// Invariants:
//   - Decoding validates: what it returns without an error keeps every limit of runtime/protocol, and everything else is an
//     error that wraps protocol.ErrInvalid. No input makes it panic (B-200…B-202).
//   - Three things are left to the machines, because their answer is a message and not a dropped frame: the size of a demand
//     window, the arithmetic of a demand (B-101…B-103), and each single delivery: one that breaks a limit is refused alone, and
//     the others of its frame go on (A-021, B-200, B-201).
//   - Encoding never fails and copies no payload. It splits what would exceed MaxFrameBytes into several frames in order;
//     one delivery or settlement always fits into a frame.
package wire
