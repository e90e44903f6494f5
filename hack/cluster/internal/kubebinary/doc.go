// Package kubebinary builds and finds the multi-call Kubernetes program.
//
// The program lives outside the clone, under $XDG_CACHE_HOME (or ~/.cache) /workpulling/kube/<key>, where the key is a hash
// of everything that decides its content: go.mod, go.sum, the sources of cmd/kube, cmd/pause and internal/provisioner, and the Go version.
//
//	<key>/kube                  the program
//	<key>/pause                 the process that holds a pod's namespaces, static
//	<key>/version               v1.37.2
//	<key>/assets/etcd …         symbolic links by component, what envtest calls KUBEBUILDER_ASSETS
//
// Invariant: a directory <key> is complete or absent; two builds at once wait for each other and the second finds it done.
package kubebinary
