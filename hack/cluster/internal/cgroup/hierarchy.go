package cgroup

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Hierarchy is one mounted tree of cgroups.
type Hierarchy struct {
	Mount   string // such as /sys/fs/cgroup/memory
	Unified bool   // version 2
	CPUSet  bool   // version 1 with the cpuset controller, where a new group starts empty and unusable
}

// Hierarchies lists those that are mounted now.
func Hierarchies() ([]Hierarchy, error) {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("listing the cgroup hierarchies: %w", err)
	}
	defer f.Close()
	return parseMounts(f)
}

// parseMounts reads lines "source target type options …".
func parseMounts(r io.Reader) ([]Hierarchy, error) {
	var out []Hierarchy
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 4 || f[2] != "cgroup" && f[2] != "cgroup2" || !strings.HasPrefix(f[1], "/sys/fs/cgroup") {
			continue
		}
		out = append(out, Hierarchy{
			Mount:   f[1],
			Unified: f[2] == "cgroup2",
			CPUSet:  f[2] == "cgroup" && slices.Contains(strings.Split(f[3], ","), "cpuset"),
		})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("listing the cgroup hierarchies: %w", err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no cgroup hierarchy is mounted below /sys/fs/cgroup; the kubelet needs them")
	}
	return out, nil
}
