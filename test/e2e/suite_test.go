//go:build e2e

package e2e

import (
	"context"
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
	prepare.Env = append(os.Environ(), "NODES="+nodes())
	prepare.Stderr = GinkgoWriter
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

// nodes is $NODES, by default two, because one spec cuts one off.
func nodes() string {
	if n := os.Getenv("NODES"); n != "" {
		return n
	}
	return "2"
}
