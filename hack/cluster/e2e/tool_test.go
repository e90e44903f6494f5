//go:build cluster

package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/workpulling/workpulling/hack/cluster/internal/image"
)

// clusterName is not the default one, so that the test does not touch a cluster that somebody uses.
const clusterName = "e2e"

// tool runs the cluster command, built for the test, and kubectl.
type tool struct{ cluster, kubectl, kubeconfig string }

func newTool(t *testing.T) *tool {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test makes namespaces and cgroups: run it as root")
	}
	x := &tool{cluster: filepath.Join(t.TempDir(), "cluster")}
	run(t, "go", "build", "-o", x.cluster, "../cmd/cluster")
	x.kubectl = filepath.Join(strings.TrimSpace(run(t, x.cluster, "assets")), "kubectl")
	return x
}

// run returns stdout, and fails the test if the command does.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := try(t.Context(), name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// commandError is a failed command with what it said.
type commandError struct {
	command string
	err     error
	stderr  string
}

func (e *commandError) Error() string { return e.command + ": " + e.err.Error() + "\n" + e.stderr }

func try(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), &commandError{command: name + " " + strings.Join(args, " "), err: err, stderr: errs.String()}
	}
	return out.String(), nil
}

// up brings the cluster up and tells how long that took.
func (x *tool) up(t *testing.T, args ...string) {
	t.Helper()
	start := time.Now()
	x.kubeconfig = strings.TrimSpace(run(t, x.cluster, append([]string{"up", "--name", clusterName}, args...)...))
	t.Logf("up %s: %.1f s", strings.Join(args, " "), time.Since(start).Seconds())
}

func (x *tool) down(t *testing.T) {
	t.Helper()
	start := time.Now()
	// Also after the end of the test, when its context is over.
	if _, err := try(context.Background(), x.cluster, "down", "--name", clusterName); err != nil {
		t.Error(err)
	}
	t.Logf("down: %.1f s", time.Since(start).Seconds())
}

// on runs a sub-command on the cluster.
func (x *tool) on(t *testing.T, command string, args ...string) string {
	t.Helper()
	return run(t, x.cluster, append([]string{command, "--name", clusterName}, args...)...)
}

func (x *tool) k(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, x.kubectl, append([]string{"--kubeconfig", x.kubeconfig}, args...)...)
}

// loadApp builds the test's image and gives it to all nodes.
func (x *tool) loadApp(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("CGO_ENABLED", "0")
	run(t, "go", "build", "-o", filepath.Join(dir, "app"), "./app")
	archive, err := os.Create(filepath.Join(dir, "app.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	app := image.Program{Ref: "example.test/app:1", Executable: filepath.Join(dir, "app"), Entrypoint: "/app"}
	if err := app.Write(archive); err != nil {
		t.Fatal(err)
	}
	x.on(t, "load-image", archive.Name())
}

// eventually polls until the condition gives no error.
func eventually(t *testing.T, limit time.Duration, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %v", limit, err)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
