package environment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// startLimit covers the build of Kubernetes on a machine that never did it.
	startLimit = 45 * time.Minute
	stopLimit  = 30 * time.Second
)

// startControlPlane runs `cluster control-plane` until Stop. The command ends by
// itself when its standard input is closed, so it cannot outlive this process.
func startControlPlane(ctx context.Context, options Options) (*Environment, error) {
	binary, err := clusterBinary(ctx)
	if err != nil {
		return nil, err
	}
	root, err := RepositoryRoot()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "workpulling-integration-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the kubeconfig: %w", err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	args := []string{"control-plane", "--kubeconfig-out", kubeconfig}
	for _, arg := range options.ControllerManagerArgs {
		args = append(args, "--controller-manager-arg="+arg)
	}
	for _, arg := range options.APIServerArgs {
		args = append(args, "--apiserver-arg="+arg)
	}
	running, err := run(binary, root, args)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	stop := func() error { return errors.Join(running.stop(), os.RemoveAll(dir)) }
	if err := running.awaitFile(ctx, kubeconfig); err != nil {
		return nil, errors.Join(err, stop())
	}
	return connectTo(kubeconfig, stop)
}

// clusterBinary is the cluster command: that of WORKPULLING_CLUSTER_BIN, or one
// built here.
func clusterBinary(ctx context.Context) (string, error) {
	if binary := os.Getenv("WORKPULLING_CLUSTER_BIN"); binary != "" {
		return binary, nil
	}
	root, err := RepositoryRoot()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(root, "bin", "cluster")
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, "hack", "cluster"), "-trimpath", "-o", binary, "./cmd/cluster")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the cluster command: %w\n%s", err, output)
	}
	return binary, nil
}

// command is a running cluster command.
type command struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	exited chan struct{}
	err    error
}

func run(binary, dir string, args []string) (*command, error) {
	c := &command{cmd: exec.Command(binary, args...), exited: make(chan struct{})}
	c.cmd.Dir = dir
	// Its progress goes to the terminal, for the first start is slow.
	c.cmd.Stderr = os.Stderr
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("preparing the cluster command: %w", err)
	}
	c.stdin = stdin
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the cluster command: %w", err)
	}
	go func() {
		defer close(c.exited)
		c.err = c.cmd.Wait()
	}()
	return c, nil
}

// awaitFile waits for the kubeconfig, which appears when the API answers.
func (c *command) awaitFile(ctx context.Context, path string) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, startLimit, true, func(context.Context) (bool, error) {
		select {
		case <-c.exited:
			return false, fmt.Errorf("the control plane ended early, its output says why (%s)", c.cmd.ProcessState)
		default:
		}
		_, err := os.Stat(path)
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the control plane: %w", err)
	}
	return nil
}

// stop closes the standard input, which ends the command, and kills it when it
// does not.
func (c *command) stop() error {
	err := c.stdin.Close()
	select {
	case <-c.exited:
		if errors.Is(err, os.ErrClosed) {
			return nil // the command ended before
		}
		return err
	case <-time.After(stopLimit):
		return errors.Join(err, errors.New("the control plane did not stop"), c.cmd.Process.Kill())
	}
}
