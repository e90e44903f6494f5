package kubebinary

import (
	"fmt"
	"os"
	"path/filepath"
)

// Binary is a built program.
type Binary struct{ dir string }

// Components are the names the program answers to.
var Components = []string{
	"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "coredns",
	"storage-provisioner", "kubectl",
}

// Kube is the path of the program.
func (b Binary) Kube() string { return filepath.Join(b.dir, "kube") }

// Pause is the path of the static program of the sandbox image.
func (b Binary) Pause() string { return filepath.Join(b.dir, "pause") }

// Assets is a directory with a link per component, for KUBEBUILDER_ASSETS or PATH.
func (b Binary) Assets() string { return filepath.Join(b.dir, "assets") }

// Version of Kubernetes, such as v1.37.2.
func (b Binary) Version() (string, error) {
	text, err := os.ReadFile(filepath.Join(b.dir, "version"))
	if err != nil {
		return "", fmt.Errorf("reading the version of the Kubernetes program: %w", err)
	}
	return string(text), nil
}

func (b Binary) exists() bool {
	_, err := os.Stat(b.dir)
	return err == nil
}

// link makes the assets directory.
func (b Binary) link() error {
	if err := os.MkdirAll(b.Assets(), 0o755); err != nil {
		return fmt.Errorf("making the assets directory: %w", err)
	}
	for _, name := range Components {
		if err := os.Symlink("../kube", filepath.Join(b.Assets(), name)); err != nil {
			return fmt.Errorf("linking a component: %w", err)
		}
	}
	return nil
}

// cacheRoot is where programs are kept.
func cacheRoot() (string, error) {
	cache, err := os.UserCacheDir() // $XDG_CACHE_HOME or ~/.cache
	if err != nil {
		return "", fmt.Errorf("finding the cache directory: %w", err)
	}
	return filepath.Join(cache, "workpulling", "kube"), nil
}
