// Package address plans the addresses of a cluster.
//
// One /16 per cluster holds all of it, so that one look at a route says what it belongs to:
//
//	10.x.0.0/24      the bridge: .1 control plane (API server, DNS), .11 node-1, .12 node-2 …, .254 the host
//	10.x.16.0/20     Services: .16.1 kubernetes.default, .16.10 kube-dns
//	10.x.128.0/17    pods: 10.x.129.0/24 on node-1, 10.x.130.0/24 on node-2 …
//
// Invariant: everything here is pure.
package address
