// Package network joins the network namespaces of a cluster with each other and with the main one.
//
// Invariants: the main namespace gets exactly one interface and the routes over it, no packet filter rule and no setting; all
// else lives in namespaces and ends with them; nothing has a default route, so no packet finds a way off the machine.
package network
