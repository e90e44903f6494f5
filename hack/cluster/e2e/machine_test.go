//go:build cluster

package e2e

import (
	"bufio"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// machine is what a cluster could leave behind on this machine.
type machine struct {
	Mounts, Links, Cgroups, Processes, Files, Settings []string
}

// look takes stock. Processes are those in the cluster's cgroups, and helpers at work on its files.
func look(t *testing.T) machine {
	t.Helper()
	m := machine{}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	defer mounts.Close()
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		m.Mounts = append(m.Mounts, strings.Fields(lines.Text())[4])
	}
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if strings.HasPrefix(l.Name, "wpk") || strings.HasPrefix(l.Name, "node-") {
			m.Links = append(m.Links, l.Name)
		}
	}
	filepath.WalkDir("/sys/fs/cgroup", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "/workpulling/"+clusterName) {
			m.Cgroups = append(m.Cgroups, path)
			return fs.SkipDir
		}
		return nil // a group that vanishes while we walk is not ours
	})
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range processes {
		group, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // empty for a zombie, which is only to be reaped
		inside := strings.Contains(string(group), "/workpulling/"+clusterName+"/")
		if len(command) > 0 && (inside || strings.Contains(string(command), "clusters/"+clusterName+"/")) {
			m.Processes = append(m.Processes, strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	for _, pattern := range []string{"/var/lib/kubelet", "/var/lib/cni/*", "/run/netns/*", "/var/log/pods", "/var/log/containers", "/run/containerd/io.containerd*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		m.Files = append(m.Files, found...)
	}
	for _, name := range []string{"fs/inotify/max_user_instances", "vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward"} {
		value, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if err != nil {
			t.Fatal(err)
		}
		m.Settings = append(m.Settings, name+" "+string(value))
	}
	return m
}

// same fails if the machine is not as before.
func (before machine) same(t *testing.T) {
	t.Helper()
	sorted := cmpopts.SortSlices(func(a, b string) bool { return a < b })
	if diff := cmp.Diff(before, look(t), sorted, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the machine is not as it was before (-before +after):\n%s", diff)
	}
}
