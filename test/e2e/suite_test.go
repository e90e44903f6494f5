//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
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
	EnforceDefaultTimeoutsWhenUsingContexts() // a wait with a context alone would last as long as its spec
	SetDefaultEventuallyPollingInterval(time.Second)
	SetDefaultConsistentlyDuration(10 * time.Second)
	SetDefaultConsistentlyPollingInterval(time.Second)

	if os.Getenv("KUBECONFIG") == "" {
		local()
	}
	var err error
	kubectl, images, err = harness.Prepare(ctx, root, os.Stderr)
	Expect(err).NotTo(HaveOccurred())
	kubectl.Echo = GinkgoWriter
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
	return harness.LocalCluster(root).Run(ctx, args...)
}
