//go:build e2e

package e2e

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/test/harness"
)

// authority is the Secret of the certificate authority as the chart names it.
const authority = "secret/workpulling-ca"

// bindings are the streams of a pool's workers to the producer, as far as one can be told from another.
type bindings struct {
	// lost is how many streams ended: each worker tells of every one that had a binding.
	lost int
	// epoch is how often the queue was loaded, age how long its controller is.
	epoch, age float64
	pods       []string
}

func (b *bed) bindings(ctx context.Context) (now bindings) {
	GinkgoHelper()
	now.pods = b.pods(ctx, "documents")
	for _, pod := range now.pods {
		log, err := b.get(ctx, "logs", pod, "-c", "workpulling-sidecar")
		Expect(err).NotTo(HaveOccurred())
		now.lost += strings.Count(log, "no stream to the producer")
	}
	metrics, err := kubectl.PodMetrics(ctx, b.namespace, "documents-producer-0")
	Expect(err).NotTo(HaveOccurred())
	now.epoch, now.age = metrics.Total("workpulling_flow_epoch"), metrics.Total("workpulling_flow_session_age_seconds")
	Expect(metrics.Total("workpulling_flow_bound_workers")).To(BeEquivalentTo(len(now.pods)))
	return now
}

// unharmed fails where a binding was lost or a process began anew since.
func (b *bed) unharmed(ctx context.Context, before bindings) {
	GinkgoHelper()
	now := b.bindings(ctx)
	Expect(now.lost).To(Equal(before.lost), "a worker lost its stream")
	Expect(now.pods).To(ConsistOf(before.pods))
	Expect(now.epoch).To(Equal(before.epoch), "the producer loaded its queue again")
	Expect(now.age).To(BeNumerically(">", before.age), "the controller began anew")
	restarts, err := b.get(ctx, "get", "pods", "-l", "workpulling.dev/role", "-o", "jsonpath={.items[*].status.initContainerStatuses[*].restartCount} {.items[*].status.containerStatuses[*].restartCount}")
	Expect(err).NotTo(HaveOccurred())
	Expect(strings.Fields(restarts)).To(HaveEach("0"))
}

// served is when the certificates of the producer and of the workers expire, and how many authorities they trust.
func (b *bed) served(ctx context.Context) (expires []float64, authorities float64) {
	GinkgoHelper()
	for _, pod := range append(b.pods(ctx, "documents"), "documents-producer-0") {
		metrics, err := kubectl.PodMetrics(ctx, b.namespace, pod)
		Expect(err).NotTo(HaveOccurred())
		Expect(metrics.Total("workpulling_certificate_stale")).To(BeZero())
		expires = append(expires, metrics.Total("workpulling_certificate_expiry_timestamp_seconds"))
		authorities += metrics.Total("workpulling_ca_bundle_certificates")
	}
	return expires, authorities
}

// renew asks for a new certificate, as docs/operations.md does.
func renew(ctx context.Context, args ...string) {
	GinkgoHelper()
	args = append(args, v1alpha1.AnnotationRenewBefore+"="+time.Now().UTC().Format(time.RFC3339), "--overwrite")
	Expect(kubectl.Get(ctx, append([]string{"annotate"}, args...)...)).Error().NotTo(HaveOccurred())
}

var _ = Describe("Certificates", Label("certs", "long"), Serial, func() {
	It("and the authority are replaced under load, and no binding is lost", func(ctx context.Context) {
		Expect(kubectl.Install(ctx, root, images, "extraArgs[0]=--ca-rotation-pause=2m")).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(kubectl.Install(ctx, root, images)).To(Succeed()) })
		b := newBed(ctx)
		b.samples(ctx, slow)
		first := b.submit(ctx, "documents", 100)
		first.accepted(ctx)
		Expect(first.finished(ctx).Redelivered).To(BeZero())
		before := b.bindings(ctx)
		expires, authorities := b.served(ctx)
		Expect(authorities).To(BeEquivalentTo(len(expires)), "one for each pod")

		// loaded runs jobs until what is waited for is there.
		loaded := func(limit time.Duration, done func(g Gomega)) {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				r := b.submit(ctx, "documents", 100)
				r.accepted(ctx)
				Expect(r.finished(ctx).Redelivered).To(BeZero())
				done(g)
			}).WithContext(ctx).WithTimeout(limit).Should(Succeed())
			b.unharmed(ctx, before)
		}
		By("replacing the certificates of the flow and the pool")
		renew(ctx, "-n", b.namespace, "workpullingflow/documents")
		renew(ctx, "-n", b.namespace, "workerpool/documents")
		loaded(4*time.Minute, func(g Gomega) {
			now, _ := b.served(ctx)
			for i := range now {
				g.Expect(now[i]).To(BeNumerically(">", expires[i]))
			}
		})

		By("rotating the authority")
		former, err := b.get(ctx, "get", "configmap", "workpulling-ca", "-o", `jsonpath={.data.ca\.crt}`)
		Expect(err).NotTo(HaveOccurred())
		expires, _ = b.served(ctx)
		renew(ctx, "-n", harness.SystemNamespace, authority)
		phase := func() (string, error) {
			return kubectl.Get(ctx, "-n", harness.SystemNamespace, "get", authority, "-o", `jsonpath={.metadata.annotations.workpulling\.dev/rotation}`)
		}
		Eventually(phase).WithContext(ctx).Should(Equal("Announced"))
		loaded(6*time.Minute, func(g Gomega) { g.Expect(phase()).To(Equal("Replacing")) })
		loaded(8*time.Minute, func(g Gomega) { g.Expect(phase()).To(Equal("None")) })
		loaded(4*time.Minute, func(g Gomega) {
			now, authorities := b.served(ctx)
			g.Expect(authorities).To(BeEquivalentTo(len(now)))
			for i := range now {
				g.Expect(now[i]).To(BeNumerically(">", expires[i]))
			}
		})
		Expect(b.get(ctx, "get", "configmap", "workpulling-ca", "-o", `jsonpath={.data.ca\.crt}`)).NotTo(ContainSubstring(former))
		Expect(kubectl.Get(ctx, "-n", harness.SystemNamespace, "get", "events", "-o", "jsonpath={.items[*].reason}")).To(And(
			ContainSubstring("AuthorityAnnounced"), ContainSubstring("AuthoritySigns"), ContainSubstring("AuthorityWithdrawn")))

		By("binding a new worker, and a producer that starts anew, by the new authority")
		b.scale(ctx, 4)
		b.wait(ctx, "workerpool/documents", "Ready")
		b.bound(ctx, 4)
		Expect(b.get(ctx, "delete", "pod", "documents-producer-0", "--timeout=2m")).Error().NotTo(HaveOccurred())
		last := b.submit(ctx, "documents", 100)
		last.accepted(ctx)
		last.finished(ctx)
		b.bound(ctx, 4)
		b.settled(ctx, "documents")
	}, SpecTimeout(30*time.Minute))
})
