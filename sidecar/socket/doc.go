// Package socket listens on the Unix sockets by which the containers of a pod reach the sidecar in it.
//
// Invariants:
//   - Every user of the pod may connect, for the app may run as any; nobody outside of it can. Which containers see a socket is decided by
//     who mounts its directory.
//   - A socket that an earlier process left behind is replaced. Who listens has made sure before that no other process of the pod lives.
//   - A gRPC server on a socket sends no keepalive pings: the kernel tells when the other side is gone, and an app whose only thread is
//     busy with a job must not look dead.
package socket
