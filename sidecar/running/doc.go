// Package running keeps a worker's running set in a file, so that a sidecar process that starts under a living app knows which
// handlers the process before it left behind.
//
// Invariants:
//   - A run is in the file before its handler is invoked; what cannot be written must not start.
//   - The file outlives the process, not the node: nothing is synced, for the app that runs the handlers dies with the node as well.
//   - Every record carries a checksum. Reading stops at the first that is torn or wrong: what follows was written by a dying
//     process, and no handler was invoked for it.
//   - The file is written anew beside the old one and renamed, at each start and when it is full, so that there is always a whole one.
//   - The room of a file is taken when it is made: a record that is added needs none of the disk.
//   - A file of another format is not taken over, nor replaced: who began what it holds is not known.
//   - No payload is in it.
package running
