package kubebinary

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// sources makes a directory as key reads it.
func sources(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "hack", "cluster")
	write(t, dir, "go.mod", "module "+modulePath+"\n")
	write(t, dir, "go.sum", "")
	write(t, dir, "cmd/kube/main.go", "package main\n")
	return dir
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestFindSource(t *testing.T) {
	dir := sources(t)
	root := filepath.Dir(filepath.Dir(dir))
	write(t, root, "go.mod", "module example.test/another\n")
	write(t, root, "test/x/x.go", "")
	for _, from := range []string{dir, filepath.Join(dir, "cmd", "kube"), root, filepath.Join(root, "test", "x")} {
		if got, err := FindSource(from); err != nil || got != dir {
			t.Errorf("from %s: %s, %v", from, got, err)
		}
	}
	if got, err := FindSource(filepath.Dir(root)); !errors.Is(err, ErrNoSource) {
		t.Errorf("outside: %s, %v", got, err)
	}
}

func TestKeyChangesWithWhatDecidesTheContent(t *testing.T) {
	dir := sources(t)
	get := func(goVersion string) string {
		t.Helper()
		k, err := key(dir, goVersion)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	first := get("go1")
	if again := get("go1"); again != first {
		t.Error("the same sources gave two keys")
	}
	write(t, dir, "cmd/kube/main_test.go", "package main\n")
	write(t, dir, "cmd/cluster/main.go", "package main\n")
	if got := get("go1"); got != first {
		t.Error("a test or another command changed the key")
	}
	if get("go2") == first {
		t.Error("another Go version has the same key")
	}
	for _, name := range []string{"go.sum", "cmd/kube/main.go", "cmd/pause/main.go", "internal/provisioner/provisioner.go"} {
		before := get("go1")
		write(t, dir, name, "package changed\n")
		if get("go1") == before {
			t.Errorf("a change of %s keeps the key", name)
		}
	}
}

func TestLink(t *testing.T) {
	b := Binary{dir: t.TempDir()}
	write(t, b.dir, "kube", "program")
	if err := b.link(); err != nil {
		t.Fatal(err)
	}
	for _, name := range Components {
		if text, err := os.ReadFile(filepath.Join(b.Assets(), name)); err != nil || string(text) != "program" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}
