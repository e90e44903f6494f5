package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseMounts(t *testing.T) {
	for name, c := range map[string]struct {
		mounts string
		want   []Hierarchy
	}{
		"version 2": {
			"proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n",
			[]Hierarchy{{Mount: "/sys/fs/cgroup", Unified: true}},
		},
		"version 1 with a unified tree beside it": {
			"cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n",
			[]Hierarchy{
				{Mount: "/sys/fs/cgroup/cpuset", CPUSet: true},
				{Mount: "/sys/fs/cgroup/memory"},
				{Mount: "/sys/fs/cgroup/unified", Unified: true},
			},
		},
		"elsewhere is not ours": {"cgroup2 /mnt/cg cgroup2 rw 0 0\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseMounts(strings.NewReader(c.mounts))
			if (err != nil) != (c.want == nil) {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A directory tree stands in for the hierarchies; it has no kernel behind it, so the control files are made here.
func TestCreateAndRemove(t *testing.T) {
	root := t.TempDir()
	set := Hierarchy{Mount: filepath.Join(root, "cpuset"), CPUSet: true}
	for _, dir := range []string{"", "workpulling", "workpulling/a"} {
		at := filepath.Join(set.Mount, dir)
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			content := ""
			if dir == "" {
				content = "0-1\n"
			}
			if err := os.WriteFile(filepath.Join(at, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := Create([]Hierarchy{set}, "/workpulling/a"); err != nil {
		t.Fatal(err)
	}
	cpus, err := os.ReadFile(filepath.Join(set.Mount, "workpulling/a/cpuset.cpus"))
	if err != nil || string(cpus) != "0-1\n" {
		t.Errorf("cpus %q, %v", cpus, err)
	}
	plain := Hierarchy{Mount: filepath.Join(root, "memory")}
	if err := os.Mkdir(plain.Mount, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/workpulling/a/node-1", "/workpulling/b"} {
		if err := Create([]Hierarchy{plain}, path); err != nil {
			t.Fatal(err)
		}
	}
	if err := Remove([]Hierarchy{plain}, "/workpulling/a", time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(plain.Mount, "workpulling/b")); err != nil {
		t.Errorf("another cluster's group is gone: %v", err)
	}
	for range 2 { // removing twice is no error
		if err := Remove([]Hierarchy{plain}, "/workpulling/b", time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if left, _ := os.ReadDir(plain.Mount); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// All clusters together weigh more than one process, whatever the version; what is below shares that as ever.
func TestClustersHaveAShareOfTheProcessors(t *testing.T) {
	for file, want := range map[string]string{"cpu.shares": "16384", "cpu.weight": "1600"} {
		cpu := Hierarchy{Mount: t.TempDir()}
		for _, dir := range []string{"workpulling", "workpulling/a"} {
			if err := os.Mkdir(filepath.Join(cpu.Mount, dir), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(cpu.Mount, dir, file), []byte("default"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := Create([]Hierarchy{cpu}, "/workpulling/a/node-1"); err != nil {
			t.Fatal(err)
		}
		for dir, want := range map[string]string{"workpulling": want, "workpulling/a": "default"} {
			if got, err := os.ReadFile(filepath.Join(cpu.Mount, dir, file)); err != nil || string(got) != want {
				t.Errorf("%s of %s is %q (%v), want %q", file, dir, got, err, want)
			}
		}
	}
}
