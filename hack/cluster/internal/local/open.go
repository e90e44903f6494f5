package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/workpulling/workpulling/hack/cluster/internal/network"
	"github.com/workpulling/workpulling/hack/cluster/internal/state"
)

// Cluster is one that is up.
type Cluster struct {
	Dir   Directory
	State *state.State
}

// Open finds a cluster that is up.
func Open(name string) (*Cluster, error) {
	dir, err := DirectoryOf(name)
	if err != nil {
		return nil, err
	}
	s, err := state.Load(dir.path)
	if err != nil {
		return nil, err
	}
	if s == nil || s.Phase != state.Running {
		return nil, fmt.Errorf("cluster %q is not up; start it: cluster up --name %s", name, name)
	}
	return &Cluster{Dir: dir, State: s}, nil
}

// Enter prepares a program that runs in the namespaces of a member, in its root directory.
func (c *Cluster) Enter(ctx context.Context, memberName string, args ...string) (*exec.Cmd, error) {
	if err := needRoot(); err != nil {
		return nil, err
	}
	m, err := c.State.Member(memberName)
	if err != nil {
		return nil, err
	}
	return enter(ctx, m, args...), nil
}

func enter(ctx context.Context, m state.Member, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter",
		append([]string{"--target=" + strconv.Itoa(m.Process.PID), "--mount", "--net", "--pid", "--uts", "--wd=/", "--"}, args...)...)
}

// ctr gives the command line of containerd's client, in the namespace of the kubelet's images and containers.
func ctr(args ...string) []string { return append([]string{"ctr", "--namespace=k8s.io"}, args...) }

// Ctr prepares containerd's client on a node.
func (c *Cluster) Ctr(ctx context.Context, node string, args ...string) (*exec.Cmd, error) {
	return c.Enter(ctx, node, ctr(args...)...)
}

// LoadImage gives every node the images of an archive (docker save or OCI layout), which write is called for once per node.
func (c *Cluster) LoadImage(ctx context.Context, write func(io.Writer) error) error {
	if err := needRoot(); err != nil {
		return err
	}
	for _, m := range c.State.Members {
		if m.Name == controlPlane {
			continue
		}
		if err := importImage(ctx, m, write); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return nil
}

// importImage streams the archive, so that it need not be where the node could see it.
func importImage(ctx context.Context, m state.Member, write func(io.Writer) error) error {
	cmd := enter(ctx, m, ctr("images", "import", "--all-platforms", "-")...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("loading an image: %w", err)
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("loading an image: %w", err)
	}
	writeErr := write(in)
	in.Close()
	err = cmd.Wait()
	if writeErr != nil && !errors.Is(writeErr, unix.EPIPE) { // a reader that gave up says why itself
		return fmt.Errorf("reading an image: %w", writeErr)
	}
	if err != nil {
		return fmt.Errorf("loading an image: %w: %s", err, strings.TrimSpace(out.String()))
	}
	return writeErr
}

// Partition cuts a node off: its pods run on, and neither they nor the kubelet reach anything beyond the node.
func (c *Cluster) Partition(ctx context.Context, node string) error {
	return c.setLink(ctx, node, false)
}

// Heal undoes Partition.
func (c *Cluster) Heal(ctx context.Context, node string) error { return c.setLink(ctx, node, true) }

func (c *Cluster) setLink(ctx context.Context, node string, up bool) error {
	if err := needRoot(); err != nil {
		return err
	}
	i, err := c.nodeIndex(node)
	if err != nil {
		return err
	}
	return network.SetLink(ctx, c.controlPlane(), i, up)
}

func (c *Cluster) controlPlane() network.Namespace {
	return network.Namespace{PID: c.State.Members[0].Process.PID}
}

func (c *Cluster) nodeIndex(node string) (int, error) {
	for i := 1; i <= c.State.Nodes; i++ {
		if nodeName(i) == node {
			return i, nil
		}
	}
	return 0, fmt.Errorf("cluster %q has no node %q; it has node-1 to node-%d", c.State.Name, node, c.State.Nodes)
}
