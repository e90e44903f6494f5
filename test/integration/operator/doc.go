// Package operator tests the operator against a real API server and controller manager, without nodes.
//
// The operator runs in the test process, under the very roles of config/rbac, so that a missing permission is a failing test. What a
// kubelet would do is done by a fake node: it writes the status of pods, and serves WorkerControl on an address of the loopback network
// with the certificate that the pod would mount. Producers' reports come over the real TLS and token path.
//
// The tests need the build tag integration.
package operator
