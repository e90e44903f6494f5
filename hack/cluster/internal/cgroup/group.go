package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// share is how much of a busy machine's processors all clusters together get, in parts that a process outside of any group has one of.
// Without it a whole Kubernetes has the part of one process, and beside a parallel build its probes and deadlines fail.
const share = 16

// Create makes the path, such as /workpulling/name/node-1, in every hierarchy.
func Create(hierarchies []Hierarchy, path string) error {
	for _, h := range hierarchies {
		if err := h.create(path); err != nil {
			return fmt.Errorf("making cgroup %s in %s: %w", path, h.Mount, err)
		}
	}
	return nil
}

// Enter moves a process into the path in every hierarchy; its later children start there.
func Enter(hierarchies []Hierarchy, path string, pid int) error {
	for _, h := range hierarchies {
		procs := filepath.Join(h.Mount, path, "cgroup.procs")
		if err := os.WriteFile(procs, []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("moving process %d into cgroup %s in %s: %w", pid, path, h.Mount, err)
		}
	}
	return nil
}

// Remove deletes the path and all below it in every hierarchy, then its parent if nothing else is in there. The kernel may
// need a moment after the death of the last process, for which it gets the limit.
func Remove(hierarchies []Hierarchy, path string, limit time.Duration) error {
	var errs []error
	deadline := time.Now().Add(limit)
	for _, h := range hierarchies {
		for {
			err := removeTree(filepath.Join(h.Mount, path))
			if errors.Is(err, unix.EBUSY) && time.Now().Before(deadline) {
				time.Sleep(20 * time.Millisecond)
				continue
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("removing cgroup %s: %w", path, err))
			}
			break
		}
		unix.Rmdir(filepath.Join(h.Mount, filepath.Dir(path))) // fails, and should, while another cluster is in there
	}
	return errors.Join(errs...)
}

func (h Hierarchy) create(path string) error {
	at := h.Mount
	for depth, part := range strings.Split(strings.Trim(path, "/"), "/") {
		if h.Unified {
			if err := passDown(at); err != nil {
				return err
			}
		}
		parent := at
		at = filepath.Join(at, part)
		if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if h.CPUSet {
			if err := inherit(parent, at, "cpuset.cpus", "cpuset.mems"); err != nil {
				return err
			}
		}
		if depth == 0 {
			if err := weigh(at); err != nil {
				return err
			}
		}
	}
	return nil
}

// weigh gives the group that holds everything its share, in the hierarchy that has the processors.
func weigh(dir string) error {
	for name, of := range map[string]int{"cpu.shares": 1024, "cpu.weight": 100} {
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_TRUNC, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		_, err = file.WriteString(strconv.Itoa(share * of))
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("giving the clusters their share of the processors: %w", err)
		}
	}
	return nil
}

// passDown lets the children of a version 2 group use all controllers that the group has.
func passDown(dir string) error {
	available, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, controller := range strings.Fields(string(available)) {
		// One by one: some cannot be passed on (realtime processes, for example), which need not hold back the others.
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0); err != nil && controller == "memory" {
			return fmt.Errorf("passing on the %s controller: %w", controller, err)
		}
	}
	return nil
}

// inherit fills what is empty in the child with the parent's values.
func inherit(parent, child string, names ...string) error {
	for _, name := range names {
		has, err := os.ReadFile(filepath.Join(child, name))
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(has)) != "" {
			continue
		}
		value, err := os.ReadFile(filepath.Join(parent, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(child, name), value, 0); err != nil {
			return err
		}
	}
	return nil
}

// removeTree removes directories only: the files of a cgroup are not files that one can remove.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}
