// Package provisioner makes volumes by making directories that every node sees under the same path.
//
// The volumes are of type "local", not "hostPath", because only there does the kubelet apply a pod's fsGroup: a process that is
// not root can write. No node is preferred, so a pod finds its data again on whichever node it lands.
//
// Invariants: a volume's name follows from its claim's UID, so doing something twice does it once; only directories that bear the
// name of a volume of ours are deleted.
package provisioner
