//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/workpulling/workpulling/test/harness"
)

// streaming applies the sample of a pool whose app opens streams, as its head says.
func (b *bed) streaming(ctx context.Context, edits ...string) {
	GinkgoHelper()
	b.beside(ctx)
	Expect(kubectl.ApplyFile(ctx, root, images, b.namespace, "config/samples/flow.yaml")).To(Succeed())
	Expect(kubectl.ApplyFile(ctx, root, images, b.namespace, "config/samples/pool-stream.yaml", edits...)).To(Succeed())
	b.wait(ctx, "workpullingflow/documents", "Ready")
	b.wait(ctx, "workerpool/readers", "Ready")
	b.tools(ctx)
}

// slowReaders makes each job last a while.
var slowReaders = []string{`"--stream"`, `"--stream", "--at-least=300ms"`}

var _ = Describe("A pool whose app opens streams", Label("stream"), func() {
	It("runs every job once, and counts the streams", func(ctx context.Context) {
		b := newBed(ctx)
		b.streaming(ctx)
		r := b.submit(ctx, "documents", 300)
		r.accepted(ctx)
		Expect(r.finished(ctx).Redelivered).To(BeZero(), "nothing was killed")
		b.settled(ctx, "documents")
		for _, pod := range b.pods(ctx, "readers") {
			metrics, err := kubectl.PodMetrics(ctx, b.namespace, pod)
			Expect(err).NotTo(HaveOccurred())
			Expect(metrics.Total("workpulling_worker_app_streams")).To(Equal(1.0))
		}
	}, SpecTimeout(6*time.Minute))

	It("loses nothing when workers are killed, and ends a rollout without a second run", func(ctx context.Context) {
		b := newBed(ctx)
		b.streaming(ctx, slowReaders...)
		r := b.submit(ctx, "documents", 300)
		r.started(ctx, 20)
		b.killThree(ctx, "readers")
		r.accepted(ctx)
		r.finished(ctx)
		b.settled(ctx, "documents")
		b.wait(ctx, "workerpool/readers", "Ready")

		By("changing the template under load")
		r = b.submit(ctx, "documents", 200)
		r.started(ctx, 10)
		b.change(ctx, "workerpool/readers", `{"spec":{"template":{"metadata":{"annotations":{"edition":"2"}}}}}`)
		r.accepted(ctx)
		Expect(r.finished(ctx).Redelivered).To(BeZero(), "every job is shorter than the drain")
	}, SpecTimeout(8*time.Minute))

	It("says so when the app opens none", func(ctx context.Context) {
		b := newBed(ctx)
		b.beside(ctx)
		Expect(kubectl.ApplyFile(ctx, root, images, b.namespace, "config/samples/flow.yaml")).To(Succeed())
		Expect(kubectl.ApplyFile(ctx, root, images, b.namespace, "config/samples/pool-stream.yaml", `, "--stream"`, "")).To(Succeed())
		b.wait(ctx, "workpullingflow/documents", "Ready")
		pods := Eventually(func(g Gomega) {
			names, err := b.get(ctx, "get", "pods", "-l", "workpulling.dev/pool=readers", "--field-selector=status.phase=Running", "-o", "name")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(names).NotTo(BeEmpty())
		}).WithContext(ctx)
		pods.Should(Succeed())
		b.shows(ctx, "workerpool/readers", "Ready", "False")
		Expect(b.pods(ctx, "readers")).NotTo(BeEmpty())
		var metrics harness.Metrics
		Eventually(func(g Gomega) {
			var err error
			metrics, err = kubectl.PodMetrics(ctx, b.namespace, b.pods(ctx, "readers")[0])
			g.Expect(err).NotTo(HaveOccurred())
		}).WithContext(ctx).Should(Succeed())
		Expect(metrics.Total("workpulling_worker_app_streams")).To(BeZero())
		Expect(metrics.Total("workpulling_worker_app_ready")).To(BeZero())
	}, SpecTimeout(5*time.Minute))
})
