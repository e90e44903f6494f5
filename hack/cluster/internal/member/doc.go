// Package member is the first process of the control plane and of each node: it runs in process, mount, network and host name
// namespaces of its own, prepares the file system that its components see, starts them, and starts them again when they end.
//
// Invariants: it does nothing before it has received its configuration, and ends if the one who started it dies before sending
// that; when it ends, however that happens, the kernel ends every process of the namespaces (containers too) and undoes every
// mount, because nothing of all this exists outside them. No host directory gets a file or a mount point.
package member
