package kubeconfig

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/workpulling/workpulling/hack/cluster/internal/pki"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kubeconfig")
	f := File{Cluster: "c", Server: "https://10.200.0.1:6443", CA: []byte("ca"), Client: pki.Pair{Cert: []byte("cert"), Key: []byte("key")}}
	for range 2 { // also over an older one
		if err := f.Write(path); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		CurrentContext string `json:"current-context"`
		Clusters       []struct {
			Cluster struct {
				Server string
				CA     []byte `json:"certificate-authority-data"`
			}
		}
		Users []struct {
			User struct {
				Key []byte `json:"client-key-data"`
			}
		}
	}
	if err := yaml.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.CurrentContext != "c" || got.Clusters[0].Cluster.Server != f.Server || string(got.Clusters[0].Cluster.CA) != "ca" || string(got.Users[0].User.Key) != "key" {
		t.Errorf("got %+v", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
	if err := f.Write(filepath.Join(dir, "absent", "kubeconfig")); err == nil {
		t.Error("no error for a directory that is not there")
	}
}
