//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// twoFlows applies the sample of one pool for two flows, as its head says.
func (b *bed) twoFlows(ctx context.Context, edits ...string) {
	GinkgoHelper()
	b.beside(ctx)
	Expect(kubectl.ApplyFile(ctx, root, images, b.namespace, "config/samples/flow.yaml")).To(Succeed())
	Expect(kubectl.ApplyFile(ctx, root, images, b.namespace, "config/samples/pool-two-flows.yaml", edits...)).To(Succeed())
	for _, object := range []string{"workpullingflow/documents", "workpullingflow/receipts", "workerpool/clerks"} {
		b.wait(ctx, object, "Ready")
	}
	b.tools(ctx)
}

// slowClerks makes each job last a while.
var slowClerks = []string{`"--store=http://effects"`, `"--store=http://effects", "--at-least=300ms"`}

var _ = Describe("A pool of two flows", Label("flows"), func() {
	It("runs the jobs of both, and shows each flow by itself", func(ctx context.Context) {
		b := newBed(ctx)
		b.twoFlows(ctx)
		documents, receipts := b.submit(ctx, "documents", 200), b.submit(ctx, "receipts", 120)
		for _, r := range []*run{documents, receipts} {
			r.accepted(ctx)
			Expect(r.finished(ctx).Redelivered).To(BeZero(), "nothing was killed")
		}

		By("counting two workers and no job left in the status of each flow")
		for _, flow := range []string{"documents", "receipts"} {
			b.settled(ctx, flow)
			b.shows(ctx, "workpullingflow/"+flow, "WorkersBound", "True WorkersBound")
			Expect(b.get(ctx, "get", "workpullingflow", flow, "-o", "jsonpath={.status.workers}")).To(Equal("2"))
		}
		b.shows(ctx, "workerpool/clerks", "FlowAccepted", "True FlowFound")
		Expect(b.get(ctx, "get", "workerpool/clerks", "-o", "wide")).To(ContainSubstring(`["documents","receipts"]`))

		By("counting the jobs of each flow in the metrics of its producer and of the workers")
		for flow, jobs := range map[string]float64{"documents": 200, "receipts": 120} {
			producer, err := kubectl.PodMetrics(ctx, b.namespace, flow+"-producer-0")
			Expect(err).NotTo(HaveOccurred())
			Expect(producer.Total("workpulling_flow_confirmed_jobs_total")).To(Equal(jobs))
			Expect(b.ofClerks(ctx, "workpulling_worker_settled_jobs_total", "flow", flow, "outcome", "confirmed")).To(Equal(jobs))
			Expect(b.ofClerks(ctx, "workpulling_worker_registered", "flow", flow)).To(Equal(2.0))
		}
	}, SpecTimeout(6*time.Minute))

	It("goes on with one flow while the other is suspended", func(ctx context.Context) {
		b := newBed(ctx)
		b.twoFlows(ctx, slowClerks...)
		documents, receipts := b.submit(ctx, "documents", 300), b.submit(ctx, "receipts", 150)
		documents.accepted(ctx)
		documents.started(ctx, 20)
		b.change(ctx, "workpullingflow/documents", `{"spec":{"suspend":"Enabled"}}`)
		b.shows(ctx, "workpullingflow/documents", "Ready", "False Suspended")
		b.shows(ctx, "workerpool/clerks", "FlowAccepted", `True FlowSuspended: spec.suspend of flow "documents" is Enabled`)
		b.shows(ctx, "workerpool/clerks", "Ready", "True WorkersReady")

		receipts.accepted(ctx)
		receipts.finished(ctx)
		before, err := b.effects.Summary(ctx, documents.submitter.Source)
		Expect(err).NotTo(HaveOccurred())
		Expect(before.Effects).To(BeNumerically("<", 300), "the suspension came in the middle")
		Consistently(b.effects.Summary).WithContext(ctx).WithArguments(documents.submitter.Source).Should(Equal(before))

		b.change(ctx, "workpullingflow/documents", `{"spec":{"suspend":"Disabled"}}`)
		Expect(documents.finished(ctx).Redelivered).To(BeZero(), "a suspension interrupts nothing")
	}, SpecTimeout(8*time.Minute))

	It("goes on with one flow when the other is deleted, and forgets that in time", func(ctx context.Context) {
		b := newBed(ctx)
		b.twoFlows(ctx, append([]string{"producerIdleSeconds: 600", "producerIdleSeconds: 20"}, slowClerks...)...)
		pods := b.pods(ctx, "clerks")
		documents, receipts := b.submit(ctx, "documents", 300), b.submit(ctx, "receipts", 100)
		receipts.accepted(ctx)
		Expect(b.get(ctx, "delete", "workpullingflow/receipts", "--timeout=3m")).Error().NotTo(HaveOccurred())
		receipts.finished(ctx)
		b.shows(ctx, "workerpool/clerks", "FlowAccepted",
			`False FlowNotFound: there is no WorkPullingFlow "receipts" in the namespace; create it or correct spec.flows; the workers pull from documents`)
		b.shows(ctx, "workerpool/clerks", "Ready", "True WorkersReady")

		documents.accepted(ctx)
		Expect(documents.finished(ctx).Redelivered).To(BeZero(), "the other flow is none of its concern")
		Expect(b.pods(ctx, "clerks")).To(ConsistOf(pods), "no worker was replaced")

		By("keeping what a worker remembers of producers within its budget")
		Eventually(b.ofClerks).WithContext(ctx).WithArguments("workpulling_worker_tracked_producers").Should(Equal(2.0), "one of each worker")
		Expect(b.ofClerks(ctx, "workpulling_worker_forgotten_producers_total", "cause", "capacity")).To(BeZero())

		By("taking the flow back under the same name")
		Expect(kubectl.ApplyFile(ctx, root, images, b.namespace, "config/samples/pool-two-flows.yaml",
			append([]string{"producerIdleSeconds: 600", "producerIdleSeconds: 20"}, slowClerks...)...)).To(Succeed())
		b.shows(ctx, "workerpool/clerks", "FlowAccepted", "True FlowFound")
		again := b.submit(ctx, "receipts", 20)
		again.accepted(ctx)
		again.finished(ctx)
		Expect(b.pods(ctx, "clerks")).To(ConsistOf(pods), "no worker was replaced")
	}, SpecTimeout(8*time.Minute))

	It("costs both flows another run and neither a job when a worker is killed", func(ctx context.Context) {
		b := newBed(ctx)
		b.twoFlows(ctx, slowClerks...)
		documents, receipts := b.submit(ctx, "documents", 300), b.submit(ctx, "receipts", 300)
		runs := []*run{documents, receipts}
		for _, r := range runs {
			r.accepted(ctx)
		}
		for _, r := range runs {
			r.started(ctx, 20)
		}
		Expect(b.get(ctx, "delete", "pod", b.pods(ctx, "clerks")[0], "--grace-period=0", "--force")).Error().NotTo(HaveOccurred())
		for _, r := range runs {
			Expect(r.finished(ctx).Redelivered).To(BeNumerically(">", 0), "the worker ran jobs of both flows")
		}
		b.settled(ctx, "documents")
		b.settled(ctx, "receipts")
		b.wait(ctx, "workerpool/clerks", "Ready")
	}, SpecTimeout(8*time.Minute))
})

// ofClerks adds a metric up over the workers of the sample.
func (b *bed) ofClerks(ctx context.Context, name string, labels ...string) (sum float64, err error) {
	for _, pod := range b.pods(ctx, "clerks") {
		metrics, err := kubectl.PodMetrics(ctx, b.namespace, pod)
		if err != nil {
			return 0, err
		}
		sum += metrics.Total(name, labels...)
	}
	return sum, nil
}
