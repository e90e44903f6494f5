// Package crash kills the real sidecars: cmd/sidecar as producer and as worker, cmd/operator and a small app run as processes of this
// machine, against a real API server without nodes, while submitters and an observer outside of them keep the books. One producer has a
// Local queue, or several share a PostgreSQL database that is killed as well. `make crash` runs it; the tests have the build tag crash.
//
// The package plays kubelet: it reads the pods that the operator built, writes the files that their volumes ask for, starts their
// containers below a directory and at a loopback address of their own, and starts them again when they end. A restarted container
// keeps its pod's UID and volumes; a replaced pod has a new UID. What a pod calls by name is answered by a name server of the bed.
//
// Invariants:
//   - The judgement (Judge) uses only what lies outside of Workpulling: the answers that submitters got, and the ledgers that the apps wrote.
//   - A schedule of faults follows from its seed alone.
//   - No process outlives the test, whichever way that ends.
package crash
