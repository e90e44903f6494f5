// Package networkpolicy plans who may open connections to the pods of flows and pools. It is pure.
//
// Invariants:
//   - A port of the runtime is open to those that need it and to nobody else.
//   - What the app of a pod serves on ports of its own is as open as it was, unless the settings say that it is somebody else's to open.
//   - Nothing is said of connections that a pod opens: whom an app calls is not known here.
//   - The policy of a flow does not depend on its pools, nor that of a pool on its flows: neither changes when the other comes or goes.
package networkpolicy
