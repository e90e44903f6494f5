package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/workpulling/workpulling/hack/cluster/internal/apiclient"
	"github.com/workpulling/workpulling/hack/cluster/internal/component"
	"github.com/workpulling/workpulling/hack/cluster/internal/kubeconfig"
	"github.com/workpulling/workpulling/hack/cluster/internal/pki"
	"github.com/workpulling/workpulling/hack/cluster/internal/poll"
	"github.com/workpulling/workpulling/hack/cluster/internal/progress"
)

// readyLimit is generous: the machine may be busy with the very tests that wait.
const readyLimit = 2 * time.Minute

// Options of a run. The zero value of each but Kube is usable.
type Options struct {
	Kube          string   // the multi-call program
	KubeconfigOut string   // where to put the administrator's kubeconfig; beside the data if empty
	ExtraAPI      []string // more flags of kube-apiserver
	ExtraManager  []string // more flags of kube-controller-manager
	KeepLogs      bool     // leave the directory with logs and data behind
	Ready         func(kubeconfig string)
}

// run is one control plane in the making.
type run struct {
	Options
	dir       string
	parts     component.ControlPlane
	keys      *pki.ControlPlane
	server    string
	processes []*process
	failed    chan error
}

// Run starts the control plane, calls Ready, and returns after the context has ended and everything is stopped. It returns
// an error if the start fails or a process ends by itself.
func Run(ctx context.Context, o Options, say *progress.Printer) error {
	dir, err := newTempDir()
	if err != nil {
		return err
	}
	if o.KeepLogs {
		say.Printf("data and logs stay in %s", dir.path)
		defer dir.lock.Close()
	} else {
		defer dir.remove()
	}
	reserved, err := reservePort()
	if err != nil {
		return err
	}
	defer reserved.close()
	r := &run{
		Options: o, dir: dir.path, failed: make(chan error, 3),
		server: fmt.Sprintf("https://127.0.0.1:%d", reserved.number),
		parts: component.ControlPlane{
			Binary: o.Kube, DataDir: dir.path, PKIDir: filepath.Join(dir.path, "pki"), Kubeconfigs: dir.path,
			BindAddress: "127.0.0.1", Port: reserved.number, SharePort: true, ServiceCIDR: "10.0.0.0/24",
			ExtraAPI: o.ExtraAPI, ExtraManager: o.ExtraManager,
		},
	}
	defer r.stop()
	path, err := r.start(ctx, say)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	if o.Ready != nil {
		o.Ready(path)
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-r.failed:
		return err
	}
}

// start brings everything up and returns the path of the administrator's kubeconfig.
func (r *run) start(ctx context.Context, say *progress.Printer) (string, error) {
	var err error
	if r.keys, err = pki.NewControlPlane(r.parts.PKIDir, time.Now(), net.IPv4(127, 0, 0, 1)); err != nil {
		return "", err
	}
	admin, err := r.kubeconfig("workpulling-test", pki.Subject{CommonName: "admin", Organizations: []string{"system:masters"}})
	if err != nil {
		return "", err
	}
	manager, err := r.kubeconfig("local", pki.Subject{CommonName: "system:kube-controller-manager"})
	if err != nil {
		return "", err
	}
	if err := manager.Write(filepath.Join(r.dir, "controller-manager.kubeconfig")); err != nil {
		return "", err
	}
	client, err := apiclient.New(r.server, r.keys.CA.Cert, admin.Client)
	if err != nil {
		return "", err
	}
	// The controller manager gives up if it finds no API server, so it starts last.
	if err := r.launch(r.parts.Etcd(), r.parts.APIServer()); err != nil {
		return "", err
	}
	if err := r.await(ctx, client, "the API server", "/readyz"); err != nil {
		return "", err
	}
	say.Printf("the API server is ready at %s", r.server)
	if err := r.launch(r.parts.ControllerManager()); err != nil {
		return "", err
	}
	if err := r.await(ctx, client, "the controllers", "/api/v1/namespaces/default/serviceaccounts/default"); err != nil {
		return "", err
	}
	say.Printf("the controllers work")
	path := r.KubeconfigOut
	if path == "" {
		path = filepath.Join(r.dir, "admin.kubeconfig")
	}
	return path, admin.Write(path)
}

func (r *run) kubeconfig(cluster string, who pki.Subject) (kubeconfig.File, error) {
	pair, err := r.keys.CA.Issue(who)
	if err != nil {
		return kubeconfig.File{}, err
	}
	return kubeconfig.File{Cluster: cluster, Server: r.server, CA: r.keys.CA.Cert, Client: pair}, nil
}

func (r *run) launch(parts ...component.Component) error {
	for _, c := range parts {
		p, err := start(c, r.dir)
		if err != nil {
			return err
		}
		r.processes = append(r.processes, p)
		go func() {
			<-p.exited
			r.failed <- p.failure()
		}()
	}
	return nil
}

// await polls the path, and stops early if a process ends.
func (r *run) await(ctx context.Context, client *apiclient.Client, what, path string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answered := make(chan error, 1)
	go func() {
		answered <- poll.Until(ctx, readyLimit, what, func(ctx context.Context) error { return client.Get(ctx, path, nil) })
	}()
	select {
	case err := <-answered:
		return err
	case err := <-r.failed:
		cancel(errors.New("a process ended"))
		<-answered
		return err
	}
}

// stop ends the processes in the opposite order of their start.
func (r *run) stop() {
	for i := len(r.processes) - 1; i >= 0; i-- {
		r.processes[i].stop()
	}
}
