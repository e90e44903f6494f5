package hosttool

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindPluginsWantsAllInOneDirectory(t *testing.T) {
	root := t.TempDir()
	half, whole := filepath.Join(root, "half"), filepath.Join(root, "whole")
	for dir, names := range map[string][]string{half: plugins[:2], whole: plugins} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := findPlugins([]string{half, whole}); got != whole {
		t.Errorf("got %q", got)
	}
	if got := findPlugins([]string{half}); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestMissingIsNamedWithItsPackage(t *testing.T) {
	missing := []program{{"ctr", "containerd"}, {"runc", "runc"}, {"containerd", "containerd"}}
	if diff := cmp.Diff([]string{"containerd", "runc"}, debs(missing)); diff != "" {
		t.Error(diff)
	}
	want := "ctr (package containerd), runc (package runc), containerd (package containerd)"
	if got := describe(missing); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
