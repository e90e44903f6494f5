//go:build e2e

package e2e

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/transport"
)

var _ = Describe("Who is no worker of a flow", Label("identity"), func() {
	It("is refused with its own reason, and nobody else notices", func(ctx context.Context) {
		b := newBed(ctx)
		b.samples(ctx, slow)
		other := b.otherFlow(ctx)
		b.near(ctx)
		l := b.load(ctx, "documents", 200*time.Millisecond)
		l.progresses(ctx, 10, time.Minute)
		i := b.intruder(ctx, "documents", "documents", "documents-producer-0")
		workers := b.pods(ctx, "documents")
		uid := b.uid(ctx, workers[0])
		good := b.podToken(ctx, workers[0], runtimeconfig.TokenAudience)

		By("showing one that was changed on the way")
		i.isRefused(ctx, tampered(good), uid, transport.LabelTokenSignature)
		By("replaying the token of one worker as another")
		i.isRefused(ctx, good, b.uid(ctx, workers[1]), transport.LabelPeerMismatch)
		By("showing a token that is for somebody else")
		i.isRefused(ctx, b.podToken(ctx, workers[0], "vault"), uid, transport.LabelTokenAudience)
		By("showing a token for the API server")
		i.isRefused(ctx, b.podToken(ctx, workers[0], ""), uid, transport.LabelTokenDefaultAudience)
		By("showing a token that has expired")
		i.isRefused(ctx, aged(good, 2*time.Hour), uid, transport.LabelTokenExpired)
		By("showing a token that is bound to no pod")
		unbound, err := b.get(ctx, "create", "token", "documents-worker", "--audience="+runtimeconfig.TokenAudience)
		Expect(err).NotTo(HaveOccurred())
		i.isRefused(ctx, strings.TrimSpace(unbound), uid, transport.LabelTokenUnbound)
		By("showing a token of a Secret")
		i.isRefused(ctx, b.legacyToken(ctx, "documents-worker"), uid, transport.LabelTokenLegacy)
		By("being of a ServiceAccount that the flow does not allow")
		submitter, err := b.get(ctx, "get", "pods", "-l", "app=submitter", "-o", "jsonpath={.items[0].metadata.name}")
		Expect(err).NotTo(HaveOccurred())
		i.isRefused(ctx, b.podToken(ctx, submitter, runtimeconfig.TokenAudience), b.uid(ctx, submitter), transport.LabelServiceAccount)
		By("being of another pool")
		i.isRefused(ctx, b.podToken(ctx, other, runtimeconfig.TokenAudience), b.uid(ctx, other), transport.LabelPodForeign)
		By("being of a pod that is gone")
		gone := b.podToken(ctx, other, runtimeconfig.TokenAudience)
		goneUID := b.uid(ctx, other)
		Expect(b.get(ctx, "delete", "pod", other, "--grace-period=0", "--force")).Error().NotTo(HaveOccurred())
		i.isRefused(ctx, gone, goneUID, transport.LabelPodUnknown)

		By("leaving every binding as it was")
		metrics, err := kubectl.PodMetrics(ctx, b.namespace, "documents-producer-0")
		Expect(err).NotTo(HaveOccurred())
		Expect(metrics.Total("workpulling_flow_bound_workers")).To(Equal(3.0))
		Expect(l.stop(ctx).Redelivered).To(BeZero(), "a refusal costs nobody a binding")
		Expect(b.pods(ctx, "documents")).To(ConsistOf(workers))
	}, SpecTimeout(12*time.Minute))
})

// otherFlow makes a flow with a pool of one worker, of the ServiceAccount of the samples, and returns the worker's pod.
func (b *bed) otherFlow(ctx context.Context) string {
	GinkgoHelper()
	Expect(kubectl.Apply(ctx, memoryFlow(b.namespace, "others"))).To(Succeed())
	Expect(kubectl.ApplyFile(ctx, root, images, b.namespace, "config/samples/pool.yaml",
		"name: documents\n", "name: others\n", "- documents\n", "- others\n", "replicas: 3", "replicas: 1")).To(Succeed())
	b.wait(ctx, "workerpool/others", "Ready")
	return b.pods(ctx, "others")[0]
}

func (b *bed) uid(ctx context.Context, pod string) string {
	GinkgoHelper()
	uid, err := b.get(ctx, "get", "pod", pod, "-o", "jsonpath={.metadata.uid}")
	Expect(err).NotTo(HaveOccurred())
	return uid
}
