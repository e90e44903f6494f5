//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A flow that has failed for good", Label("postgres", "recovery"), func() {
	It("stays as it is over a restart, and starts when spec.recoverNonce says so", func(ctx context.Context) {
		d := newDatabase(ctx)
		b := newBed(ctx)
		b.beside(ctx)
		d.secret(ctx, b, d.DSN(role, "first"))
		b.invoices(ctx)
		b.crew(ctx)
		b.wait(ctx, "workerpool/invoices", "Ready")
		b.tools(ctx)
		r := b.submit(ctx, "invoices", 300)
		r.started(ctx, 20)

		By("taking a table of the queue away, which no repetition heals")
		d.exec(ctx, jobs, "ALTER TABLE workpulling.jobs RENAME TO jobs_away")
		Eventually(b.condition).WithContext(ctx).WithArguments("workpullingflow/invoices", "DeliveryFailed").Should(MatchRegexp("^True (Store|Accept|Confirm)Conflict: "))
		Eventually(b.condition).WithContext(ctx).WithArguments("workpullingflow/invoices", "Ready").Should(MatchRegexp("^False (Store|Accept|Confirm)Conflict: "))
		Expect(b.condition(ctx, "workpullingflow/invoices", "Ready")).To(ContainSubstring(`kubectl patch wpf -n ` + b.namespace + ` invoices --type merge -p '{"spec": {"recoverNonce": 1}}'`))
		d.exec(ctx, jobs, "ALTER TABLE workpulling.jobs_away RENAME TO jobs")

		By("replacing every producer")
		before := b.uids(ctx)
		Expect(b.get(ctx, "delete", "pods", "-l", "workpulling.dev/role=producer", "--timeout=2m")).Error().NotTo(HaveOccurred())
		Eventually(func(g Gomega) { // the one that takes over is not ready
			phases, err := b.get(ctx, "get", "pods", "-l", "workpulling.dev/role=producer", "-o", "jsonpath={.items[*].status.phase}")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(phases).To(Equal("Running Running Running"))
			standbys, err := b.get(ctx, "get", "workpullingflow/invoices", "-o", "jsonpath={.status.producer.readyStandbys}")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(standbys).To(Equal("2"))
		}).WithContext(ctx).WithTimeout(3 * time.Minute).Should(Succeed())
		Expect(b.uids(ctx)).NotTo(ContainElements(before))
		Consistently(b.condition).WithContext(ctx).WithArguments("workpullingflow/invoices", "DeliveryFailed").Should(MatchRegexp("^True (Store|Accept|Confirm)Conflict: "))

		By("saying that the cause is gone")
		b.change(ctx, "workpullingflow/invoices", `{"spec":{"recoverNonce":1}}`)
		b.shows(ctx, "workpullingflow/invoices", "DeliveryFailed", "False Delivering")
		b.crew(ctx)
		r.finish(ctx)
		Expect(b.get(ctx, "get", "workpullingflow/invoices", "-o", "jsonpath={.status.lastFailure.reason}")).To(HaveSuffix("Conflict"))
	}, SpecTimeout(10*time.Minute))
})
