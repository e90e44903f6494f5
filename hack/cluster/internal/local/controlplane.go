package local

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/workpulling/workpulling/hack/cluster/internal/apiclient"
	"github.com/workpulling/workpulling/hack/cluster/internal/component"
	"github.com/workpulling/workpulling/hack/cluster/internal/kubeconfig"
	"github.com/workpulling/workpulling/hack/cluster/internal/member"
	"github.com/workpulling/workpulling/hack/cluster/internal/pki"
)

const apiPort = 6443

// clients of the API server that run in the control plane's namespaces, by the name of their kubeconfig.
var clients = map[string]pki.Subject{
	"controller-manager":  {CommonName: "system:kube-controller-manager"},
	"scheduler":           {CommonName: "system:kube-scheduler"},
	"coredns":             {CommonName: "system:coredns"},
	"storage-provisioner": {CommonName: "system:storage-provisioner"},
}

func (u *up) apiAddress() string { return fmt.Sprintf("%s:%d", u.state.Plan.ControlPlane(), apiPort) }

// startControlPlane makes keys and configuration, sets the control plane to work and waits for the API server.
func (u *up) startControlPlane(ctx context.Context) error {
	config, etcd := u.dir.member(controlPlane, "kubernetes"), u.dir.member(controlPlane, "etcd")
	if err := u.dir.make(config, etcd); err != nil {
		return err
	}
	if err := os.Chmod(etcd, 0o700); err != nil { // etcd's sockets are in it
		return fmt.Errorf("closing etcd's directory: %w", err)
	}
	var err error
	p := u.state.Plan
	u.keys, err = pki.NewControlPlane(filepath.Join(config, "pki"), time.Now(),
		net.IP(p.ControlPlane().AsSlice()), net.IP(p.APIService().AsSlice()), net.IPv4(127, 0, 0, 1))
	if err != nil {
		return err
	}
	for name, subject := range clients {
		if _, err := u.writeKubeconfig(filepath.Join(config, name+".kubeconfig"), subject); err != nil {
			return err
		}
	}
	const data = "/var/lib/etcd"
	parts := component.ControlPlane{
		Binary: u.binary.Kube(), DataDir: data, PKIDir: u.keys.Dir, Kubeconfigs: config,
		BindAddress: p.ControlPlane().String(), Port: apiPort, HasNodes: true,
		ServiceCIDR: p.Services().String(), PodCIDR: p.Pods().String(), VolumesDir: "/var/lib/volumes",
		ExtraAPI: u.ExtraAPI, ExtraManager: u.ExtraManager,
	}
	if err := os.WriteFile(filepath.Join(config, "Corefile"), parts.Corefile(), 0o644); err != nil {
		return fmt.Errorf("configuring CoreDNS: %w", err)
	}
	err = u.configure(0, member.Config{
		Binds: []member.Bind{{From: etcd, To: data}},
		Components: []component.Component{
			parts.Etcd(), parts.APIServer(), parts.ControllerManager(), parts.Scheduler(), parts.StorageProvisioner(), parts.CoreDNS(),
		},
	})
	if err != nil {
		return err
	}
	admin, err := u.writeKubeconfig(u.dir.Kubeconfig(), pki.Subject{CommonName: "admin", Organizations: []string{"system:masters"}})
	if err != nil {
		return err
	}
	u.api, err = apiclient.New(admin.Server, admin.CA, admin.Client)
	return err
}

func (u *up) writeKubeconfig(path string, who pki.Subject) (kubeconfig.File, error) {
	pair, err := u.keys.CA.Issue(who)
	if err != nil {
		return kubeconfig.File{}, err
	}
	f := kubeconfig.File{Cluster: u.Name, Server: "https://" + u.apiAddress(), CA: u.keys.CA.Cert, Client: pair}
	return f, f.Write(path)
}
