//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// slow makes each job last at least a while, still far shorter than the drain.
const slow = `- op: add
  path: /spec/template/spec/containers/0/args/-
  value: --at-least=300ms`

var _ = Describe("The main job", Label("smoke"), func() {
	It("runs every job once and shows it", func(ctx context.Context) {
		b := newBed(ctx)
		b.samples(ctx, "")
		r := b.submit(ctx, "documents", 200)
		r.accepted(ctx)
		verdict := r.finished(ctx)
		Expect(verdict.Redelivered).To(BeZero(), "nothing was killed")
		b.settled(ctx, "documents")

		By("answering kubectl get for both kinds")
		Expect(b.get(ctx, "get", "workpulling")).To(And(ContainSubstring("workpullingflow.workpulling.dev/documents"), ContainSubstring("workerpool.workpulling.dev/documents")))
		b.shows(ctx, "workpullingflow/documents", "WorkersBound", "True WorkersBound")

		By("taking a second submission of the same documents as known")
		again, err := r.submitter.Submit(ctx, ignore)
		Expect(err).NotTo(HaveOccurred())
		Expect(again.Known).To(BeEquivalentTo(200))
		Expect(r.finished(ctx).Redelivered).To(BeZero(), "a known job does not run again")
	}, SpecTimeout(6*time.Minute))

	It("loses nothing when workers are killed", func(ctx context.Context) {
		b := newBed(ctx)
		b.samples(ctx, slow)
		r := b.submit(ctx, "documents", 300)
		r.started(ctx, 20)
		b.killThree(ctx, "documents")
		r.accepted(ctx)
		r.finished(ctx)
		b.settled(ctx, "documents")
		b.wait(ctx, "workerpool/documents", "Ready")
	}, SpecTimeout(6*time.Minute))

	It("loses nothing when the producer is killed", func(ctx context.Context) {
		b := newBed(ctx)
		b.samples(ctx, slow)
		r := b.submit(ctx, "documents", 300)
		r.started(ctx, 20)
		Expect(b.get(ctx, "delete", "pod", "documents-producer-0", "--grace-period=0", "--force")).Error().NotTo(HaveOccurred())
		r.accepted(ctx)
		r.finished(ctx)
		b.settled(ctx, "documents")
	}, SpecTimeout(6*time.Minute))

	It("scales up and down under load and runs nothing twice", func(ctx context.Context) {
		b := newBed(ctx)
		b.samples(ctx, slow)
		r := b.submit(ctx, "documents", 300)
		r.started(ctx, 10)
		b.scale(ctx, 5)
		r.started(ctx, 80)
		b.scale(ctx, 1)
		r.started(ctx, 150)
		b.scale(ctx, 3)
		r.accepted(ctx)
		Expect(r.finished(ctx).Redelivered).To(BeZero(), "every job is shorter than the drain")
	}, SpecTimeout(6*time.Minute))

	It("is a target of kubectl autoscale", func(ctx context.Context) {
		b := newBed(ctx)
		b.samples(ctx, "")
		Expect(b.get(ctx, "autoscale", "workerpool", "documents", "--min=2", "--max=4", "--cpu-percent=70")).Error().NotTo(HaveOccurred())
		Eventually(b.condition).WithContext(ctx).WithArguments("hpa/documents", "AbleToScale").Should(HavePrefix("True SucceededGetScale"))

		By("clamping to the bounds of the autoscaler, which needs no metric")
		b.scale(ctx, 6)
		Eventually(b.get).WithContext(ctx).WithArguments("get", "workerpool/documents", "-o", "jsonpath={.spec.replicas}").Should(Equal("4"))

		By("counting exactly the live workers with the selector of the scale subresource")
		Eventually(func(g Gomega) {
			selector, err := b.get(ctx, "get", "workerpool/documents", "-o", "jsonpath={.status.selector}")
			g.Expect(err).NotTo(HaveOccurred())
			var pods struct{ Items []json.RawMessage }
			g.Expect(kubectl.JSON(ctx, &pods, "-n", b.namespace, "get", "pods", "-l", selector)).To(Succeed())
			g.Expect(pods.Items).To(HaveLen(4))
		}).WithContext(ctx).Should(Succeed())
	}, SpecTimeout(6*time.Minute))

	It("takes jobs from an app beside the producer", func(ctx context.Context) {
		b := newBed(ctx)
		b.producing(ctx)
		Eventually(func(g Gomega) {
			summary, err := b.effects.Summary(ctx, "/samples/producer")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(summary.Effects).To(Equal(2))
		}).WithContext(ctx).Should(Succeed())
	}, SpecTimeout(5*time.Minute))
})
