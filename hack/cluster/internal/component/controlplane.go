package component

import (
	"fmt"
	"path/filepath"
)

// ControlPlane holds what the processes of a control plane need to know. All paths are absolute.
type ControlPlane struct {
	Binary       string // the multi-call Kubernetes program
	DataDir      string // etcd's data and sockets
	PKIDir       string // as pki.NewControlPlane writes it
	Kubeconfigs  string // directory with controller-manager.kubeconfig, scheduler.kubeconfig, storage-provisioner.kubeconfig
	BindAddress  string // the only address the API server listens on
	Port         int    // the API server's port
	ServiceCIDR  string
	PodCIDR      string // empty without nodes
	HasNodes     bool   // false: no endpoints of the API server itself, no metrics port of the controller manager
	SharePort    bool   // the port is held by a socket of the caller
	VolumesDir   string // where the storage provisioner makes volumes
	ExtraAPI     []string
	ExtraManager []string
}

// EtcdSocket is the address of etcd: a socket in a directory of mode 0700 instead of a port, so that nobody else on the
// machine can reach it and two clusters cannot collide.
func (c ControlPlane) EtcdSocket() string { return "unix://" + filepath.Join(c.DataDir, "etcd.sock") }

// Etcd keeps its promises except one: it does not wait for the disk, because no local cluster outlives a power cut.
func (c ControlPlane) Etcd() Component {
	peer := "unix://" + filepath.Join(c.DataDir, "peer.sock")
	return Component{Name: "etcd", Args: []string{
		c.Binary, "etcd",
		"--name=local",
		"--data-dir=" + filepath.Join(c.DataDir, "etcd"),
		"--listen-client-urls=" + c.EtcdSocket(),
		"--advertise-client-urls=" + c.EtcdSocket(),
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=local=" + peer,
		"--unsafe-no-fsync",
		"--auto-compaction-retention=10m",
		"--quota-backend-bytes=4294967296",
		"--log-level=warn",
	}}
}

// api is what the clients of the API server wait for.
func (c ControlPlane) api() string { return fmt.Sprintf("ready:%s:%d", c.BindAddress, c.Port) }

func (c ControlPlane) pki(name string) string { return filepath.Join(c.PKIDir, name) }

func (c ControlPlane) kubeconfig(name string) string {
	return filepath.Join(c.Kubeconfigs, name+".kubeconfig")
}

// APIServer has the aggregation layer, token projection and the Node authorizer on.
func (c ControlPlane) APIServer() Component {
	args := []string{
		c.Binary, "kube-apiserver",
		"--etcd-servers=" + c.EtcdSocket(),
		"--bind-address=" + c.BindAddress,
		"--advertise-address=" + c.BindAddress,
		fmt.Sprintf("--secure-port=%d", c.Port),
		fmt.Sprintf("--permit-port-sharing=%t", c.SharePort),
		"--tls-cert-file=" + c.pki("apiserver.crt"),
		"--tls-private-key-file=" + c.pki("apiserver.key"),
		"--client-ca-file=" + c.pki("ca.crt"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--service-cluster-ip-range=" + c.ServiceCIDR,
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file=" + c.pki("service-account.key"),
		"--service-account-key-file=" + c.pki("service-account.pub"),
		"--requestheader-client-ca-file=" + c.pki("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.pki("front-proxy-client.crt"),
		"--proxy-client-key-file=" + c.pki("front-proxy-client.key"),
		"--enable-aggregator-routing=true",
		"--kubelet-client-certificate=" + c.pki("apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + c.pki("apiserver-kubelet-client.key"),
		"--kubelet-certificate-authority=" + c.pki("ca.crt"),
		"--kubelet-preferred-address-types=InternalIP",
		"--profiling=false",
	}
	if !c.HasNodes {
		// A loopback address is not allowed in Endpoints, and without pods nobody would use them.
		args = append(args, "--endpoint-reconciler-type=none")
	}
	return Component{Name: "kube-apiserver", Args: append(args, c.ExtraAPI...), After: "unix:" + filepath.Join(c.DataDir, "etcd.sock")}
}

// ControllerManager runs every controller that is on by default: HPA, garbage collector, namespaces, disruption,
// ServiceAccounts and their tokens, EndpointSlices among them.
func (c ControlPlane) ControllerManager() Component {
	kubeconfig := c.kubeconfig("controller-manager")
	args := []string{
		c.Binary, "kube-controller-manager",
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + c.pki("service-account.key"),
		"--root-ca-file=" + c.pki("ca.crt"),
		"--cluster-signing-cert-file=" + c.pki("ca.crt"),
		"--cluster-signing-key-file=" + c.pki("ca.key"),
		"--service-cluster-ip-range=" + c.ServiceCIDR,
		"--allocate-node-cidrs=false",
		"--profiling=false",
	}
	if c.HasNodes {
		args = append(args, "--cluster-cidr="+c.PodCIDR)
	} else {
		args = append(args, "--secure-port=0")
	}
	return Component{Name: "kube-controller-manager", Args: append(args, c.ExtraManager...), After: c.api()}
}

// Scheduler is the ordinary one.
func (c ControlPlane) Scheduler() Component {
	kubeconfig := c.kubeconfig("scheduler")
	return Component{Name: "kube-scheduler", After: c.api(), Args: []string{
		c.Binary, "kube-scheduler",
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--leader-elect=false",
		"--profiling=false",
	}}
}

// StorageProvisioner serves the default StorageClass.
func (c ControlPlane) StorageProvisioner() Component {
	return Component{Name: "storage-provisioner", After: c.api(), Args: []string{
		c.Binary, "storage-provisioner",
		"--kubeconfig=" + c.kubeconfig("storage-provisioner"),
		"--root=" + c.VolumesDir,
	}}
}

// CoreDNS answers for the cluster's names and says of every other name that it does not exist, because nothing outside can
// be reached. It listens on port 53 of all addresses of its namespace.
func (c ControlPlane) CoreDNS() Component {
	return Component{
		Name: "coredns", After: c.api(),
		Args: []string{c.Binary, "coredns", "-conf=" + filepath.Join(c.Kubeconfigs, "Corefile")},
	}
}

// Corefile is CoreDNS's configuration, to be written to the directory of the kubeconfigs.
func (c ControlPlane) Corefile() []byte {
	return fmt.Appendf(nil, `cluster.local:53 in-addr.arpa:53 {
    errors
    ready 127.0.0.1:8181
    kubernetes {
        kubeconfig %s
        pods insecure
        ttl 5
    }
}
.:53 {
    errors
    template ANY ANY {
        rcode NXDOMAIN
    }
}
`, c.kubeconfig("coredns"))
}
