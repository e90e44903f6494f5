// Package protocolv1 is the wire form of the protocol: what `make proto` makes of workpulling.proto, with nothing by hand but this.
//
// Invariants:
//   - A field's number and meaning never change, and a removed number is reserved: producers and sidecars of neighbouring releases
//     talk to each other during a rollout.
//   - A peer ignores fields that it does not know, and takes a missing one for its zero value, which is the older behaviour.
//   - Whoever speaks it translates at its edge: the machines, the queues and apps never see these types, but those of
//     runtime/protocol.
package protocolv1
