package local

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/workpulling/workpulling/hack/cluster/internal/component"
	"github.com/workpulling/workpulling/hack/cluster/internal/member"
	"github.com/workpulling/workpulling/hack/cluster/internal/pki"
)

// startNodes sets all nodes to work.
func (u *up) startNodes(context.Context) error {
	for i := range u.Nodes {
		if err := u.startNode(i + 1); err != nil {
			return fmt.Errorf("%s: %w", nodeName(i+1), err)
		}
	}
	return nil
}

func (u *up) startNode(i int) error {
	name, p := nodeName(i), u.state.Plan
	config := u.dir.member(name, "kubernetes")
	if err := u.dir.make(config); err != nil {
		return err
	}
	if err := u.writeNodeKeys(config, name, net.IP(p.Node(i).AsSlice())); err != nil {
		return err
	}
	snapshotter, err := snapshotterFor(u.dir.path)
	if err != nil {
		return err
	}
	restrict, err := lacksSysResource()
	if err != nil {
		return err
	}
	node := component.Node{
		Name: name, Binary: u.binary.Kube(), ConfigDir: config, Address: p.Node(i).String(),
		ClusterDNS: p.DNSService().String(), PodCIDR: p.Pods().String(), NodePodCIDR: p.NodePods(i).String(),
		Cgroup: u.cgroup(name), Containerd: u.tools.Containerd, CNIDir: u.tools.CNIDir, Snapshotter: snapshotter,
		RestrictOOM: restrict, APIServer: u.apiAddress(), HardMemoryMin: "100Mi",
	}
	files, err := node.Files()
	if err != nil {
		return err
	}
	for file, content := range files {
		path := filepath.Join(config, file)
		if err := u.dir.make(filepath.Dir(path)); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return fmt.Errorf("writing the configuration: %w", err)
		}
	}
	return u.configure(i, member.Config{
		Forward: true,
		Binds: []member.Bind{
			{From: u.dir.member(name, "containerd"), To: "/var/lib/containerd"},
			{From: u.dir.member(name, "kubelet"), To: "/var/lib/kubelet"},
			{From: filepath.Join(u.dir.MemberLogs(name), "pods"), To: "/var/log/pods"},
		},
		Components: node.Components(),
	})
}

func (u *up) writeNodeKeys(config, name string, address net.IP) error {
	if err := os.WriteFile(filepath.Join(config, "ca.crt"), u.keys.CA.Cert, 0o644); err != nil {
		return fmt.Errorf("writing the CA: %w", err)
	}
	serving, err := u.keys.CA.Issue(pki.Subject{
		CommonName: "system:node:" + name, Organizations: []string{"system:nodes"}, Names: []string{name}, IPs: []net.IP{address},
	})
	if err != nil {
		return err
	}
	if err := serving.Write(config, "kubelet"); err != nil {
		return err
	}
	for file, who := range map[string]pki.Subject{
		"kubelet.kubeconfig":    {CommonName: "system:node:" + name, Organizations: []string{"system:nodes"}},
		"kube-proxy.kubeconfig": {CommonName: "system:kube-proxy"},
	} {
		if _, err := u.writeKubeconfig(filepath.Join(config, file), who); err != nil {
			return err
		}
	}
	return nil
}

// snapshotterFor says how containerd stacks the layers of images below dir: an overlay cannot lie on an overlay, as in a
// container on a developer's machine.
func snapshotterFor(dir string) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return "", fmt.Errorf("looking at the file system of %s: %w", dir, err)
	}
	if fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return "native", nil
	}
	return "overlayfs", nil
}

// lacksSysResource reports whether we, root or not, may not lower a process's OOM score.
func lacksSysResource() (bool, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false, fmt.Errorf("reading our capabilities: %w", err)
	}
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) == 0, nil
}
