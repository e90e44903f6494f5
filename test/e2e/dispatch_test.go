//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("spec.dispatch", Label("dispatch"), func() {
	// One worker holds ten long jobs when a second comes, and then come twenty more: by turns each gets ten, and by what they hold both
	// end with fifteen.
	DescribeTable("says who gets the next job", func(ctx context.Context, policy string, first, second float64) {
		b := newBed(ctx)
		b.samples(ctx, `- {op: replace, path: /spec/replicas, value: 1}
- {op: replace, path: /spec/concurrency, value: 10}
- {op: replace, path: /spec/handler/http/timeoutSeconds, value: 600}
- {op: replace, path: /spec/drain/timeoutSeconds, value: 1}
- {op: add, path: /spec/template/spec/containers/0/args/-, value: --at-least=9m}`)
		b.change(ctx, "workpullingflow/documents", `{"spec":{"dispatch":"`+policy+`","deletionPolicy":"Discard"}}`)
		Eventually(b.get).WithContext(ctx).WithArguments("get", "workpullingflow/documents", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].message}`).
			Should(BeEmpty(), "the producer has taken the edit")

		b.submit(ctx, "documents", 10).started(ctx, 10)
		old := b.pods(ctx, "documents")
		b.scale(ctx, 2)
		Eventually(b.get).WithContext(ctx).WithArguments("get", "workpullingflow/documents", "-o", "jsonpath={.status.workers}").Should(Equal("2"))
		b.submit(ctx, "documents", 20).accepted(ctx)
		Eventually(func(g Gomega) {
			metrics, err := kubectl.PodMetrics(ctx, b.namespace, "documents-producer-0")
			g.Expect(err).NotTo(HaveOccurred())
			all := metrics.Total("workpulling_flow_worker_in_flight_jobs", "pool", "documents")
			older := metrics.Total("workpulling_flow_worker_in_flight_jobs", "pool", "documents", "pod", old[0])
			g.Expect(all).To(Equal(30.0))
			// The newcomer may be handed a job or two that wait, before it has its own.
			g.Expect(older).To(BeNumerically("~", first, 2))
			g.Expect(all - older).To(BeNumerically("~", second, 2))
		}).WithContext(ctx).Should(Succeed())
	},
		Entry("by turns", "RoundRobin", 20.0, 10.0, SpecTimeout(6*time.Minute)),
		Entry("by what they hold", "LeastOutstanding", 15.0, 15.0, SpecTimeout(6*time.Minute)),
	)
})
