// Package control serves WorkerControl: how the operator asks one worker whether it is busy, cordons it if idle, drains it, and
// takes that back.
//
// Invariants:
//   - Only a client with a certificate of the operator's CA and the operator's name is answered.
//   - A call that names another pod UID changes nothing: the address may have been given to another pod.
//   - CordonIfIdle is decided inside the worker's event loop, so no job can start between the look and the cordon.
package control
