package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/workpulling/workpulling/hack/cluster/internal/progress"
)

// storeUsers are etcd and what must not see it go back in time while it runs: an API server serves from a cache of it.
var storeUsers = []string{"kube-scheduler", "kube-controller-manager", apiServer, "etcd"}

// SaveSnapshot copies etcd's data into a new directory, while etcd is stopped for a moment.
func (c *Cluster) SaveSnapshot(ctx context.Context, say *progress.Printer, directory string) error {
	if _, err := os.Stat(directory); err == nil {
		return fmt.Errorf("%s is there already", directory)
	}
	return c.without(ctx, say, []string{"etcd"}, func() error { return copyPrivate(directory, c.etcdData()) })
}

// RestoreSnapshot puts the data of a snapshot in the place of etcd's: the cluster's objects, and the revisions that the API server
// counts, are as they were when it was saved. Nodes and pods are not told.
func (c *Cluster) RestoreSnapshot(ctx context.Context, say *progress.Printer, directory string) error {
	if _, err := os.Stat(filepath.Join(directory, "member")); err != nil {
		return fmt.Errorf("looking for a snapshot: %w", err)
	}
	return c.without(ctx, say, storeUsers, func() error {
		if err := os.RemoveAll(c.etcdData()); err != nil {
			return fmt.Errorf("removing etcd's data: %w", err)
		}
		return copyPrivate(c.etcdData(), directory)
	})
}

func (c *Cluster) etcdData() string { return c.Dir.member(controlPlane, "etcd", "etcd") }

// without does something while components of the control plane are stopped. What was stopped before stays so.
func (c *Cluster) without(ctx context.Context, say *progress.Printer, components []string, do func() error) error {
	if err := needRoot(); err != nil {
		return err
	}
	unlock, err := c.Dir.lock(ctx, say)
	if err != nil {
		return err
	}
	defer unlock()
	var before []string
	stop := func(stopped []string) []string {
		before = slices.Clone(stopped)
		return slices.Compact(slices.Sorted(slices.Values(append(stopped, components...))))
	}
	if err := c.give(ctx, controlPlane, components, stop); err != nil {
		return err
	}
	err = do()
	// They start whatever became of it, in the order in which they wait for each other.
	back := slices.DeleteFunc(slices.Clone(components), func(name string) bool { return slices.Contains(before, name) })
	slices.Reverse(back)
	startErr := c.give(ctx, controlPlane, back, func([]string) []string { return before })
	if err != nil {
		return err
	}
	return startErr
}

// copyPrivate copies a directory to a place that is for its owner alone.
func copyPrivate(to, from string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return fmt.Errorf("copying etcd's data: %w", err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return fmt.Errorf("copying etcd's data: %w", err)
	}
	return nil
}
