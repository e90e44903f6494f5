// Package producer is the producer sidecar: it wires the queue, the controller, the streams of workers, the intake and the
// reports to the operator.
//
// Invariants:
//   - The data plane needs neither the operator nor, for what is bound already, the API server: reports, configuration and
//     identity checks fail on their own and come back on their own.
//   - A volume that cannot be opened is a load that is retried, shown in the flow's status; the process stays up and says so.
//   - Stopping closes the intake first, lets stores and settlements in flight become durable, and ends the streams last.
//   - Everything in the configuration except the type of the queue takes effect without a restart.
package producer
