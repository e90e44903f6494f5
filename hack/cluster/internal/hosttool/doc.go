// Package hosttool finds the programs that a node needs from the machine (containerd, runc, CNI plugins, iptables …) and
// installs them with apt where that is possible.
//
// Invariant: what is missing is named, with the package that brings it, before anything is started.
package hosttool
