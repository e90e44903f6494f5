//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/workpulling/workpulling/test/harness"
)

var (
	root    = filepath.Join("..", "..")
	kubectl *harness.Kubectl
	images  harness.Images
)

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Workpulling on a real Kubernetes")
}

var _ = BeforeSuite(func(ctx context.Context) {
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(time.Second)
	SetDefaultConsistentlyDuration(10 * time.Second)
	SetDefaultConsistentlyPollingInterval(time.Second)

	prepare := exec.CommandContext(ctx, filepath.Join(root, "hack", "demo", "prepare.sh"))
	if os.Getenv("KUBECONFIG") == "" {
		local()
	}
	prepare.Env = os.Environ()
	prepare.Stderr = os.Stderr // building takes minutes where nothing is cached
	out, err := prepare.Output()
	Expect(err).NotTo(HaveOccurred(), "preparing the cluster")
	for line := range strings.Lines(string(out)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			Expect(os.Setenv(name, value)).To(Succeed())
		}
	}
	kubectl = harness.FromEnvironment()
	kubectl.Echo = GinkgoWriter
	images, err = harness.ReadImages(root)
	Expect(err).NotTo(HaveOccurred())
	Expect(kubectl.Install(ctx, root, images)).To(Succeed())
}, NodeTimeout(30*time.Minute))

// local chooses the suite's own local cluster, of two nodes because one spec cuts one off, and takes it down at the end. A
// CLUSTER_NAME given from outside is left alone.
func local() {
	if os.Getenv("NODES") == "" {
		Expect(os.Setenv("NODES", "2")).To(Succeed())
	}
	if os.Getenv("CLUSTER_NAME") != "" {
		return
	}
	Expect(os.Setenv("CLUSTER_NAME", "workpulling-e2e")).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(cluster(ctx, "down")).To(Succeed())
	}, NodeTimeout(2*time.Minute))
}

// cluster runs a command of the local cluster.
func cluster(ctx context.Context, args ...string) error {
	program := os.Getenv("WORKPULLING_CLUSTER_BIN")
	if program == "" {
		program = filepath.Join(root, "bin", "cluster")
	}
	args = append(args, "--name", os.Getenv("CLUSTER_NAME"))
	if out, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("cluster %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
