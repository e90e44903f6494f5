package component

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"
)

// Paths that hold inside every node, whatever the cluster: a node has a view of the file system of its own.
const (
	ContainerdSocket = "/run/containerd/containerd.sock"
	kubeletRoot      = "/var/lib/kubelet"
)

// PauseImage holds the namespaces of a pod. It is made and loaded by "up".
const PauseImage = "workpulling.dev/pause:1"

// Node holds what the processes of a node need to know. All paths are absolute.
type Node struct {
	Name          string
	Binary        string // the multi-call Kubernetes program
	ConfigDir     string // where the files of Files are, with pki.Pair kubelet and ca.crt beside them
	Address       string // of the node
	ClusterDNS    string
	PodCIDR       string // of the cluster
	NodePodCIDR   string // of this node
	Cgroup        string // root of the kubelet's cgroups
	Containerd    string // path of the program
	CNIDir        string // directory of the CNI plugins
	Snapshotter   string // overlayfs, or native where that does not work
	RestrictOOM   bool   // the machine does not let us lower OOM scores
	APIServer     string // host:port
	HardMemoryMin string // free memory below which pods are evicted, such as 100Mi
}

func (n Node) config(name string) string { return n.ConfigDir + "/" + name }

// Components in the order of their start.
func (n Node) Components() []Component {
	return []Component{
		{Name: "containerd", Args: []string{n.Containerd, "--config=" + n.config("containerd.toml")}},
		{
			Name: "kubelet", After: "unix:" + ContainerdSocket,
			Args: []string{
				n.Binary, "kubelet",
				"--config=" + n.config("kubelet.yaml"),
				"--kubeconfig=" + n.config("kubelet.kubeconfig"),
				"--hostname-override=" + n.Name,
				"--node-ip=" + n.Address,
				"--root-dir=" + kubeletRoot,
			},
		},
		{
			Name: "kube-proxy", After: "ready:" + n.APIServer,
			Args: []string{n.Binary, "kube-proxy", "--config=" + n.config("kube-proxy.yaml")},
		},
	}
}

// Files are the configuration files by name, to be written to ConfigDir.
func (n Node) Files() (map[string][]byte, error) {
	kubelet, err := yaml.Marshal(n.kubelet())
	if err != nil {
		return nil, fmt.Errorf("rendering the kubelet's configuration: %w", err)
	}
	proxy, err := yaml.Marshal(n.proxy())
	if err != nil {
		return nil, fmt.Errorf("rendering kube-proxy's configuration: %w", err)
	}
	cni, err := json.MarshalIndent(n.cni(), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("rendering the CNI configuration: %w", err)
	}
	return map[string][]byte{
		"containerd.toml":      []byte(n.containerd()),
		"kubelet.yaml":         kubelet,
		"kube-proxy.yaml":      proxy,
		"cni/10-pods.conflist": cni,
	}, nil
}

type object = map[string]any

func (n Node) containerd() string {
	return fmt.Sprintf(`version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"]

[grpc]
  address = %[1]q

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %[2]q
  restrict_oom_score_adj = %[3]t

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = %[4]q
  conf_dir = %[5]q

[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = %[6]q
  default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false
`, ContainerdSocket, PauseImage, n.RestrictOOM, n.CNIDir, n.config("cni"), n.Snapshotter)
}

// kubelet never evicts for the sake of the disk and never collects images: the disk is that of a developer's machine, and no
// registry could bring an image back.
func (n Node) kubelet() object {
	return object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",
		"authentication": object{
			"anonymous": object{"enabled": false},
			"webhook":   object{"enabled": true},
			"x509":      object{"clientCAFile": n.config("ca.crt")},
		},
		"authorization":               object{"mode": "Webhook"},
		"tlsCertFile":                 n.config("kubelet.crt"),
		"tlsPrivateKeyFile":           n.config("kubelet.key"),
		"containerRuntimeEndpoint":    "unix://" + ContainerdSocket,
		"clusterDomain":               "cluster.local",
		"clusterDNS":                  []string{n.ClusterDNS},
		"resolvConf":                  "", // pods know the cluster's names only
		"cgroupDriver":                "cgroupfs",
		"cgroupRoot":                  n.Cgroup,
		"failCgroupV1":                false,
		"failSwapOn":                  false,
		"oomScoreAdj":                 0,
		"volumePluginDir":             kubeletRoot + "/volume-plugins",
		"serializeImagePulls":         false,
		"imageGCHighThresholdPercent": 100,
		"imageGCLowThresholdPercent":  99,
		"evictionHard": object{
			"memory.available": n.HardMemoryMin, "nodefs.available": "0%", "nodefs.inodesFree": "0%",
			"imagefs.available": "0%", "imagefs.inodesFree": "0%",
		},
	}
}

// proxy leaves the kernel's connection tracking as it is: its size is not a namespace's to change.
func (n Node) proxy() object {
	return object{
		"apiVersion":       "kubeproxy.config.k8s.io/v1alpha1",
		"kind":             "KubeProxyConfiguration",
		"clientConnection": object{"kubeconfig": n.config("kube-proxy.kubeconfig")},
		"hostnameOverride": n.Name,
		"mode":             "iptables",
		"clusterCIDR":      n.PodCIDR,
		"detectLocalMode":  "ClusterCIDR", // so that what the host sends to a Service finds its way back
		"conntrack":        object{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
		"iptables":         object{"localhostNodePorts": false},
		"oomScoreAdj":      0,
	}
}

// cni connects each pod with a cable of its own. With a bridge between the pods, packets of two pods on a node would pass by
// kube-proxy's rules unless the br_netfilter module is there; so everything is routed.
func (n Node) cni() object {
	return object{
		"cniVersion": "0.4.0",
		"name":       "pods",
		"plugins": []object{
			{
				"type":   "ptp",
				"ipMasq": false,
				"ipam": object{
					"type":   "host-local",
					"ranges": [][]object{{{"subnet": n.NodePodCIDR}}},
					"routes": []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}
}
