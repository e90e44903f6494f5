// Package e2e tests Workpulling on a real Kubernetes, from outside: manifests go in through kubectl and helm, jobs through the
// intake, and the proof is read from the effects store of the samples. `make test-e2e` runs it.
//
// Labels: smoke is the short run of CI; bad is what goes wrong by a user's hand; drain is workers that leave under load; flows is a pool
// of several flows; dispatch is who gets the next job; postgres is several producers of a database, which the suite runs beside the
// cluster, and recovery the end of a failure; identity is who may bind, fencing what becomes of those that lost the right to (zombie
// and lock among them), and outage a control plane that goes away or back in time; long is what takes minutes by its nature; deletion,
// partition and uninstall say themselves. Each spec has a namespace of its own, so that none depends on another.
package e2e
