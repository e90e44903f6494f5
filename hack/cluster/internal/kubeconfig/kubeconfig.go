package kubeconfig

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/workpulling/workpulling/hack/cluster/internal/pki"
)

// File is one cluster, one user and the context that joins them.
type File struct {
	Cluster string // name of the cluster, the user and the context
	Server  string // URL of the API server
	CA      []byte // PEM
	Client  pki.Pair
}

// Render gives the YAML text. []byte fields become base64, as the format asks.
func (f File) Render() ([]byte, error) {
	type object = map[string]any
	out, err := yaml.Marshal(object{
		"apiVersion": "v1",
		"kind":       "Config",
		"clusters":   []object{{"name": f.Cluster, "cluster": object{"server": f.Server, "certificate-authority-data": f.CA}}},
		"users": []object{{"name": f.Cluster, "user": object{
			"client-certificate-data": f.Client.Cert, "client-key-data": f.Client.Key,
		}}},
		"contexts":        []object{{"name": f.Cluster, "context": object{"cluster": f.Cluster, "user": f.Cluster}}},
		"current-context": f.Cluster,
	})
	if err != nil {
		return nil, fmt.Errorf("rendering a kubeconfig: %w", err)
	}
	return out, nil
}

// Write puts the file at path, all or nothing.
func (f File) Write(path string) error {
	text, err := f.Render()
	if err != nil {
		return err
	}
	beside, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	defer os.Remove(beside.Name()) // fails, and should, once renamed
	if _, err := beside.Write(text); err != nil {
		beside.Close()
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	if err := beside.Close(); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	if err := os.Rename(beside.Name(), path); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}
