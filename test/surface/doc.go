// Package surface says, for every port and socket of every part, every verb on it and every credential, what is refused and what is allowed.
//
// Invariants:
//   - The table is complete: a listener, a port, a route or a gRPC method of the code without a row fails TestEverythingHasARow.
//   - Each cell is tried against the real server, with the real TLS, the real identity checks and real signatures. Only the API server behind
//     them is played.
//   - A refusal is compared by its name. One that comes about for another reason than the table gives is a failure.
package surface
