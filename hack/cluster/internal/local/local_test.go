package local

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/workpulling/workpulling/hack/cluster/internal/address"
	"github.com/workpulling/workpulling/hack/cluster/internal/state"
)

func TestDirectoryOf(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/state")
	d, err := DirectoryOf("a-1")
	if err != nil {
		t.Fatal(err)
	}
	if want := "/state/workpulling/clusters/a-1/kubeconfig"; d.Kubeconfig() != want {
		t.Errorf("got %s, want %s", d.Kubeconfig(), want)
	}
	for _, bad := range []string{"", "..", "a/b", "A", "-a", "a-", strings.Repeat("a", 33)} {
		if _, err := DirectoryOf(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestRemoveDataKeepsStateAndLogs(t *testing.T) {
	d := Directory{path: t.TempDir()}
	if err := d.make(d.MemberLogs("node-1"), d.volumes(), d.member("node-1", "kubelet")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.path, "state.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.removeData(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if diff := cmp.Diff([]string{"logs", "state.json"}, left); diff != "" {
		t.Error(diff)
	}
}

func TestManifestsAreObjects(t *testing.T) {
	text, err := manifests(address.Plan{Network: netip.MustParsePrefix("10.200.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, document := range strings.Split(string(text), "\n---\n") {
		var object struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct{ ClusterIP string }
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		got = append(got, strings.TrimSpace(object.Kind+" "+object.Metadata.Name+" "+object.Spec.ClusterIP))
	}
	want := []string{
		"Service kube-dns 10.200.16.10", "EndpointSlice kube-dns-control-plane", "ClusterRole system:coredns",
		"ClusterRoleBinding system:coredns", "ClusterRoleBinding system:storage-provisioner", "StorageClass standard",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSiblingsAreTheOtherClusters(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for _, name := range []string{"mine", "other", "gone"} {
		d, err := DirectoryOf(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.make(d.Logs()); err != nil {
			t.Fatal(err)
		}
		if name == "gone" {
			continue
		}
		if err := (&state.State{Name: name, Sysctls: map[string]int{"a": 1}}).Save(d.path); err != nil {
			t.Fatal(err)
		}
	}
	d, err := DirectoryOf("mine")
	if err != nil {
		t.Fatal(err)
	}
	siblings, err := d.siblings()
	if err != nil || len(siblings) != 1 || siblings[0].Name != "other" {
		t.Errorf("got %v, %v", siblings, err)
	}
}
