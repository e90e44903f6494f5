package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Cluster is a local cluster of hack/cluster.
type Cluster struct {
	// Program is the cluster command, Name the cluster's.
	Program, Name string
}

// LocalCluster is the one of $CLUSTER_NAME; its program is $WORKPULLING_CLUSTER_BIN, by default bin/cluster below root.
func LocalCluster(root string) *Cluster {
	program := os.Getenv("WORKPULLING_CLUSTER_BIN")
	if program == "" {
		program = filepath.Join(root, "bin", "cluster")
	}
	return &Cluster{Program: program, Name: os.Getenv("CLUSTER_NAME")}
}

// Run runs a command of the cluster, such as "partition node-2".
func (c *Cluster) Run(ctx context.Context, args ...string) error {
	_, err := c.output(ctx, args...)
	return err
}

// PID is the process of a component inside its member.
func (c *Cluster) PID(ctx context.Context, member, component string) (int, error) {
	m, err := c.member(ctx, member)
	if err != nil {
		return 0, err
	}
	if found := m.Components[component]; found.PID != 0 {
		return found.PID, nil
	}
	return 0, fmt.Errorf("no %s runs in %s", component, member)
}

// Root is the directory of this machine that shows the files of a member, those too that are mounted in there alone.
func (c *Cluster) Root(ctx context.Context, member string) (string, error) {
	m, err := c.member(ctx, member)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("/proc/%d/root", m.PID), nil
}

// member is what the cluster says of one of its members.
type member struct {
	Name       string
	PID        int
	Components map[string]struct{ PID int }
}

func (c *Cluster) member(ctx context.Context, name string) (member, error) {
	text, err := c.output(ctx, "status", "--output=json")
	if err != nil {
		return member{}, err
	}
	var status struct{ Members []member }
	if err := json.Unmarshal(text, &status); err != nil {
		return member{}, fmt.Errorf("decoding the status of the cluster: %w", err)
	}
	for _, m := range status.Members {
		if m.Name == name {
			return m, nil
		}
	}
	return member{}, fmt.Errorf("the cluster has no %s", name)
}

func (c *Cluster) output(ctx context.Context, args ...string) ([]byte, error) {
	at := len(args)
	for i, arg := range args { // what comes after is for somebody else
		if arg == "--" {
			at = i
			break
		}
	}
	all := append(append(append([]string{}, args[:at]...), "--name", c.Name), args[at:]...)
	var out, stderr bytes.Buffer
	command := exec.CommandContext(ctx, c.Program, all...)
	command.Stdout, command.Stderr = &out, &stderr
	if err := command.Run(); err != nil {
		return nil, &CommandError{append([]string{"cluster"}, all...), stderr.String(), err}
	}
	return out.Bytes(), nil
}

// Prepare makes a Kubernetes with the images in it ready, as hack/demo/prepare.sh says, and sets what that prints in the environment.
func Prepare(ctx context.Context, root string, progress io.Writer) (*Kubectl, Images, error) {
	prepare := exec.CommandContext(ctx, filepath.Join(root, "hack", "demo", "prepare.sh"))
	prepare.Stderr = progress // building takes minutes where nothing is cached
	out, err := prepare.Output()
	if err != nil {
		return nil, Images{}, fmt.Errorf("preparing the cluster: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			if err := os.Setenv(name, value); err != nil {
				return nil, Images{}, fmt.Errorf("preparing the cluster: %w", err)
			}
		}
	}
	images, err := ReadImages(root)
	return FromEnvironment(), images, err
}
