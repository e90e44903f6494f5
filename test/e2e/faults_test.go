//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/workpulling/workpulling/test/harness"
)

var _ = Describe("Deletion", Label("deletion"), func() {
	// busy is a flow with work in progress.
	busy := func(ctx context.Context) *bed {
		GinkgoHelper()
		b := newBed(ctx)
		b.samples(ctx, slow)
		r := b.submit(ctx, "documents", 100)
		r.started(ctx, 10)
		return b
	}
	It("of a flow before its pool drains it and ends", func(ctx context.Context) {
		b := newBed(ctx)
		b.samples(ctx, slow)
		r := b.submit(ctx, "documents", 100)
		r.accepted(ctx)
		Expect(b.get(ctx, "delete", "workpullingflow/documents", "--timeout=3m")).Error().NotTo(HaveOccurred())
		r.finished(ctx)
		Expect(b.get(ctx, "delete", "workerpool/documents", "--timeout=2m")).Error().NotTo(HaveOccurred())
	}, SpecTimeout(8*time.Minute))

	It("of a pool before its flow ends, and the jobs stay", func(ctx context.Context) {
		b := busy(ctx)
		Expect(b.get(ctx, "delete", "workerpool/documents", "--timeout=3m")).Error().NotTo(HaveOccurred())
		b.shows(ctx, "workpullingflow/documents", "WorkersBound", "False NoPool")
		Expect(b.get(ctx, "patch", "workpullingflow/documents", "--type=merge", `-p={"spec":{"deletionPolicy":"Discard"}}`)).Error().NotTo(HaveOccurred())
		Expect(b.get(ctx, "delete", "workpullingflow/documents", "--timeout=2m")).Error().NotTo(HaveOccurred())
	}, SpecTimeout(8*time.Minute))

	It("of the namespace ends", func(ctx context.Context) {
		b := busy(ctx)
		Expect(kubectl.Get(ctx, "delete", "namespace", b.namespace, "--timeout=3m")).Error().NotTo(HaveOccurred())
	}, SpecTimeout(8*time.Minute))
})

var _ = Describe("A node that is cut off", Label("partition"), Serial, func() {
	It("costs its workers' jobs one more run and nothing else", func(ctx context.Context) {
		others, err := kubectl.Get(ctx, "get", "nodes", "-o", "jsonpath={.items[1:].metadata.name}")
		Expect(err).NotTo(HaveOccurred())
		Expect(others).NotTo(BeEmpty(), "the cluster has one node")

		By("keeping the producer and the store on the first node, and only workers on the second")
		Expect(kubectl.Get(ctx, "cordon", others)).Error().NotTo(HaveOccurred())
		DeferCleanup(func(ctx context.Context) {
			Expect(kubectl.Get(ctx, "uncordon", others)).Error().NotTo(HaveOccurred())
		})
		b := newBed(ctx)
		b.samples(ctx, slow)
		Expect(kubectl.Get(ctx, "uncordon", others)).Error().NotTo(HaveOccurred())
		b.scale(ctx, 6)
		Eventually(b.get).WithContext(ctx).WithArguments("get", "pods", "-l", "workpulling.dev/pool=documents", "--field-selector=status.phase=Running,spec.nodeName="+others, "-o", "name").
			ShouldNot(BeEmpty())
		b.wait(ctx, "workerpool/documents", "Ready")

		r := b.submit(ctx, "documents", 300)
		r.started(ctx, 20)
		Expect(cluster(ctx, "partition", others)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(cluster(ctx, "heal", others)).To(Succeed()) })
		r.accepted(ctx)
		r.finished(ctx)
		Expect(cluster(ctx, "heal", others)).To(Succeed())
		b.settled(ctx, "documents")
		b.wait(ctx, "workerpool/documents", "Ready")
	}, SpecTimeout(10*time.Minute))
})

var _ = Describe("An absent operator", Label("uninstall"), Serial, func() {
	It("does not stop the jobs, and is taken back", func(ctx context.Context) {
		b := newBed(ctx)
		b.samples(ctx, slow)
		Expect(kubectl.Uninstall(ctx)).To(Succeed())
		DeferCleanup(func(ctx context.Context) {
			Expect(kubectl.Install(ctx, root, images)).To(Succeed())
		})
		r := b.submit(ctx, "documents", 100)
		r.accepted(ctx)
		Expect(r.finished(ctx).Redelivered).To(BeZero())

		By("reading the flow, which the kept CRDs still know")
		Expect(b.get(ctx, "get", "workpullingflow/documents")).Error().NotTo(HaveOccurred())

		Expect(kubectl.Install(ctx, root, images)).To(Succeed())
		b.wait(ctx, "workpullingflow/documents", "Ready")
		Expect(kubectl.Get(ctx, "-n", harness.SystemNamespace, "get", "deployment/workpulling")).Error().NotTo(HaveOccurred())
	}, SpecTimeout(8*time.Minute))
})
