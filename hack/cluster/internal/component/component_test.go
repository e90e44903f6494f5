package component

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func node() Node {
	return Node{
		Name: "node-1", Binary: "/kube", ConfigDir: "/config", Address: "10.200.0.11", ClusterDNS: "10.200.16.10",
		PodCIDR: "10.200.128.0/17", NodePodCIDR: "10.200.129.0/24", Cgroup: "/workpulling/a/node-1",
		Containerd: "/usr/bin/containerd", CNIDir: "/usr/lib/cni", Snapshotter: "overlayfs", RestrictOOM: true,
		APIServer: "10.200.0.1:6443", HardMemoryMin: "100Mi",
	}
}

func TestNodeFiles(t *testing.T) {
	files, err := node().Files()
	if err != nil {
		t.Fatal(err)
	}
	var kubelet struct {
		Kind, CgroupRoot, ResolvConf string
		ClusterDNS                   []string
		FailCgroupV1                 *bool
		EvictionHard                 map[string]string
		Authentication               struct{ Anonymous struct{ Enabled *bool } }
	}
	if err := yaml.Unmarshal(files["kubelet.yaml"], &kubelet); err != nil {
		t.Fatal(err)
	}
	if kubelet.Kind != "KubeletConfiguration" || kubelet.CgroupRoot != "/workpulling/a/node-1" || kubelet.ResolvConf != "" ||
		!slices.Equal(kubelet.ClusterDNS, []string{"10.200.16.10"}) || kubelet.FailCgroupV1 == nil || *kubelet.FailCgroupV1 ||
		kubelet.Authentication.Anonymous.Enabled == nil || *kubelet.Authentication.Anonymous.Enabled {
		t.Errorf("kubelet: %+v", kubelet)
	}
	for signal, threshold := range kubelet.EvictionHard {
		if signal != "memory.available" && threshold != "0%" {
			t.Errorf("a full disk evicts pods: %s %s", signal, threshold)
		}
	}
	var cni struct {
		Plugins []struct {
			Type string
			IPAM struct{ Ranges [][]struct{ Subnet string } }
		}
	}
	if err := json.Unmarshal(files["cni/10-pods.conflist"], &cni); err != nil {
		t.Fatal(err)
	}
	if len(cni.Plugins) != 2 || cni.Plugins[0].IPAM.Ranges[0][0].Subnet != "10.200.129.0/24" {
		t.Errorf("cni: %+v", cni)
	}
	for _, want := range []string{"restrict_oom_score_adj = true", `sandbox_image = "workpulling.dev/pause:1"`, `bin_dir = "/usr/lib/cni"`, "SystemdCgroup = false"} {
		if !strings.Contains(string(files["containerd.toml"]), want) {
			t.Errorf("containerd.toml lacks %s", want)
		}
	}
}

func TestControlPlane(t *testing.T) {
	bare := ControlPlane{Binary: "/kube", DataDir: "/d", PKIDir: "/pki", Kubeconfigs: "/k", BindAddress: "127.0.0.1", Port: 1234, SharePort: true,
		ServiceCIDR: "10.0.0.0/24", ExtraAPI: []string{"--v=9"}, ExtraManager: []string{"--v=8"}}
	full := bare
	full.HasNodes, full.PodCIDR, full.SharePort = true, "10.200.128.0/17", false
	for name, c := range map[string]struct {
		component Component
		has, not  []string
	}{
		"etcd": {bare.Etcd(), []string{"--listen-client-urls=unix:///d/etcd.sock"}, nil},
		"apiserver of tests": {bare.APIServer(),
			[]string{"--etcd-servers=unix:///d/etcd.sock", "--secure-port=1234", "--permit-port-sharing=true", "--endpoint-reconciler-type=none", "--enable-aggregator-routing=true", "--authorization-mode=Node,RBAC", "--v=9"}, nil},
		"apiserver of nodes":   {full.APIServer(), []string{"--permit-port-sharing=false"}, []string{"--endpoint-reconciler-type=none"}},
		"controllers of tests": {bare.ControllerManager(), []string{"--secure-port=0", "--v=8"}, nil},
		"controllers of nodes": {full.ControllerManager(), []string{"--cluster-cidr=10.200.128.0/17"}, []string{"--secure-port=0"}},
	} {
		for _, flag := range c.has {
			if !slices.Contains(c.component.Args, flag) {
				t.Errorf("%s lacks %s: %v", name, flag, c.component.Args)
			}
		}
		for _, flag := range c.not {
			if slices.Contains(c.component.Args, flag) {
				t.Errorf("%s has %s", name, flag)
			}
		}
	}
	if got := bare.Scheduler().After; got != "ready:127.0.0.1:1234" {
		t.Errorf("the scheduler waits for %q", got)
	}
}
