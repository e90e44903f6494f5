// Package standalone runs flows and the workers of their pools on one machine, without Kubernetes, from the manifests that a cluster would
// get. The producers and the workers are the sidecars of a pod, in this process; the apps are child processes.
//
// Invariants:
//   - A job takes the path that it takes in a cluster: intake, queue, streams over TLS, worker, HTTP handler. Nothing here stores,
//     dispatches or confirms.
//   - Nobody binds or submits without the secret of this run, except over a Unix socket that only its owner can reach, and where the person
//     who started the run has said so.
//   - The end of an app is a redelivery and no lost job. It is started again, later each time, until the run ends.
//   - No app outlives the run, however the run ends: a guard process, which outlives it by a moment, kills what is left. A guard
//     that ends before the run is replaced, and knows all apps from its first moment.
//   - The end is in order: intake, workers, which finish what runs and hand back the rest, apps, producers. A second signal skips it all.
package standalone
