// Package environment gives a test suite a real Kubernetes API with the CRDs of
// Workpulling installed.
//
// Where it comes from, in this order: the cluster of KUBECONFIG, the binaries of
// KUBEBUILDER_ASSETS, or a control plane of its own (etcd, API server and
// controller manager, no node) that hack/cluster builds once and starts in
// seconds.
//
// Invariants:
//
//   - A suite changes nothing outside namespaces that it made by Namespace, since
//     the cluster may be someone's.
//   - What Start started ends with Stop, and also when the test process dies.
package environment
