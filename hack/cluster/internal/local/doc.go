// Package local brings a cluster up on this machine and takes it down.
//
//	main namespace                      │ namespaces of the cluster
//	                                    │
//	cluster up/down, kubectl, curl      │  control-plane                         node-1                   node-2 …
//	           │                        │  ┌──────────────────────────────┐  ┌────────────────────┐  ┌────────────────────┐
//	           │                        │  │ etcd  kube-apiserver         │  │ containerd         │  │ containerd         │
//	           │                        │  │ kube-controller-manager      │  │ kubelet            │  │ kubelet            │
//	           │                        │  │ kube-scheduler               │  │ kube-proxy         │  │ kube-proxy         │
//	           │                        │  │ CoreDNS  storage-provisioner │  │ pod  pod  pod      │  │ pod  pod  pod      │
//	           │                        │  │                              │  │  │    │    │       │  │  │    │    │       │
//	           │                        │  │   ┌─────── bridge ────────┐  │  │ (a cable each,     │  │ (a cable each,     │
//	           │                        │  │   │                       │  │  │  all routed)       │  │  all routed)       │
//	           │                        │  │   host    node-1   node-2 │  │  │                    │  │                    │
//	           │                        │  └───┼─────────┼────────┼────┘  │  └─────────┼──────────┘  └─────────┼──────────┘
//	 wpk200 .254 ───────────────────────┼──────┘         └────────┼──── eth0 .11 ────┘                       │
//	                                    │                         └──────────────────────────── eth0 .12 ────┘
//
// The control plane and each node are a set of namespaces of their own (processes, mounts, network, host name) whose first
// process is this program (package member). Killing that process makes the kernel end all processes in there, containers
// included, and drop all mounts and interfaces. The main namespace sees one interface with routes to nodes, Services and pods;
// beside it there remain cgroups and files, which "down" removes. Addresses are in package address.
//
// Invariants: what a cluster has outside its directory is in its state file before it exists (package state), so "down" works
// after any death of "up"; one command at a time works on a cluster; a cluster that is not whole is taken away before another
// of its name is made.
package local
