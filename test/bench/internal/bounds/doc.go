// Package bounds are programs of the shape of ours that promise less, as bounds of what ours can reach on a machine: an echo over gRPC, which
// is the ceiling, and bare relays over the same hops, which redeliver nothing, fence nobody, know no identity and remember no job.
//
// They speak the message types of the product where they have to, so that what differs is what the product does and not how it writes it.
package bounds
