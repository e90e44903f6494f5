//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/workpulling/workpulling/test/harness"
)

var _ = Describe("A mistake", Label("bad"), func() {
	It("in a manifest is refused with every rule it breaks", func(ctx context.Context) {
		b := newBed(ctx)
		err := kubectl.ApplyFile(ctx, root, images, b.namespace, "config/samples/bad/invalid-pool.yaml")
		Expect(err).To(MatchError(And(
			ContainSubstring("concurrency must not be greater than flowControlWindow"),
			ContainSubstring("spec.restartPolicy must be Always"),
			ContainSubstring("belong to the sidecar"),
		)))
	}, SpecTimeout(time.Minute))

	It("in the name of a flow makes no pods, and is healed by the flow", func(ctx context.Context) {
		b := newBed(ctx)
		b.bad(ctx, "unknown-flow.yaml")
		b.shows(ctx, "workerpool/bad-unknown-flow", "FlowAccepted", "False FlowNotFound")
		Expect(b.pods(ctx, "bad-unknown-flow")).To(BeEmpty())
		Expect(kubectl.Apply(ctx, memoryFlow(b.namespace, "docuemnts"))).To(Succeed())
		b.shows(ctx, "workerpool/bad-unknown-flow", "Ready", "True")
	}, SpecTimeout(4*time.Minute))

	It("in the size of a payload is refused at the door, and the others pass", func(ctx context.Context) {
		b := newBed(ctx)
		b.samples(ctx, "")
		documents, err := harness.Documents(ctx, 10, 16<<10)
		Expect(err).NotTo(HaveOccurred())
		large := harness.Document{ID: "too/large.txt", Content: []byte(strings.Repeat("too large\n", 40<<10))}
		r := b.submitThese(ctx, "documents", append(slices.Clip(documents), large))
		Eventually(ctx, r.ended).Should(Receive(MatchError(And(ContainSubstring("413"), ContainSubstring("1 of 11")))))
		r.documents = documents
		r.finished(ctx)
	}, SpecTimeout(5*time.Minute))

	It("in a handler makes dead letters and loses nothing", func(ctx context.Context) {
		b := newBed(ctx)
		b.beside(ctx)
		b.bad(ctx, "failing-handler.yaml")
		b.tools(ctx)
		b.wait(ctx, "workpullingflow/bad-failing", "Ready")
		r := b.submit(ctx, "bad-failing", 5)
		r.accepted(ctx)
		b.shows(ctx, "workpullingflow/bad-failing", "HasDeadLetters", "True JobsDeadLettered")
		Eventually(b.get).WithContext(ctx).WithArguments("get", "workpullingflow/bad-failing", "-o", "jsonpath={.status.deadLetters}").Should(Equal("5"))
		list, err := b.effects.List(ctx, r.submitter.Source)
		Expect(err).NotTo(HaveOccurred())
		Expect(list).To(HaveLen(5))
		for _, effect := range list {
			Expect(effect.Started).To(Equal(3), "maxAttempts is 3")
		}
	}, SpecTimeout(5*time.Minute))

	It("in a port hands out no job, and is healed by the right app", func(ctx context.Context) {
		b := newBed(ctx)
		b.beside(ctx)
		b.bad(ctx, "not-listening.yaml")
		b.tools(ctx)
		b.wait(ctx, "workpullingflow/bad-not-listening", "ProducerAvailable")
		b.shows(ctx, "workerpool/bad-not-listening", "Ready", "False HandlerNotListening")
		r := b.submit(ctx, "bad-not-listening", 20)
		r.accepted(ctx)
		Expect(b.effects.Summary(ctx, r.submitter.Source)).To(Equal(harness.EffectSummary{}))
		Expect(b.get(ctx, "patch", "workerpool/bad-not-listening", "--type=json",
			`-p=[{"op":"replace","path":"/spec/template/spec/containers/0/args","value":["work","--store=http://effects"]}]`)).Error().NotTo(HaveOccurred())
		r.finished(ctx)
	}, SpecTimeout(6*time.Minute))

	It("in the size of the backlog asks submitters to come back, and loses nothing", func(ctx context.Context) {
		b := newBed(ctx)
		b.beside(ctx)
		b.bad(ctx, "small-backlog.yaml")
		b.tools(ctx)
		b.wait(ctx, "workpullingflow/bad-small-backlog", "ProducerAvailable")
		r := b.submit(ctx, "bad-small-backlog", 20)
		b.shows(ctx, "workpullingflow/bad-small-backlog", "QueueAvailable", "True BacklogFull")
		Expect(b.get(ctx, "scale", "workerpool/bad-small-backlog", "--replicas=1")).Error().NotTo(HaveOccurred())
		r.accepted(ctx)
		r.finished(ctx)
	}, SpecTimeout(6*time.Minute))

	It("in the StorageClass is named by a condition", func(ctx context.Context) {
		b := newBed(ctx)
		b.bad(ctx, "storage-class.yaml")
		b.shows(ctx, "workpullingflow/bad-storage-class", "QueueAvailable", "False VolumePending")
		Expect(b.condition(ctx, "workpullingflow/bad-storage-class", "QueueAvailable")).To(ContainSubstring("does-not-exist"))
	}, SpecTimeout(3*time.Minute))

	It("in deleting the volume claim is named by a condition", func(ctx context.Context) {
		b := newBed(ctx)
		b.samples(ctx, "")
		claim, err := b.get(ctx, "get", "pvc", "-o", `jsonpath={.items[?(@.metadata.labels.workpulling\.dev/flow=="documents")].metadata.name}`)
		Expect(err).NotTo(HaveOccurred())
		Expect(b.get(ctx, "delete", "pvc", claim, "--wait=false")).Error().NotTo(HaveOccurred())
		b.shows(ctx, "workpullingflow/documents", "QueueAvailable", "False VolumeMissing")
	}, SpecTimeout(5*time.Minute))

	It("in an image is named by a condition, and is healed by the right one", func(ctx context.Context) {
		b := newBed(ctx)
		b.bad(ctx, "image.yaml")
		b.shows(ctx, "workerpool/bad-image", "Ready", "False ImagePullFailed")
		Expect(b.get(ctx, "patch", "workerpool/bad-image", "--type=json",
			`-p=[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"`+images.AppRepository+":"+images.Tag+`"}]`)).Error().NotTo(HaveOccurred())
		b.shows(ctx, "workerpool/bad-image", "Ready", "True")
	}, SpecTimeout(5*time.Minute))

	It("in a quota is named by a condition, and is healed by a larger one", func(ctx context.Context) {
		b := newBed(ctx)
		b.bad(ctx, "quota.yaml")
		b.shows(ctx, "workerpool/bad-quota", "Ready", "False QuotaExceeded")
		Expect(b.get(ctx, "patch", "resourcequota/few-pods", `-p={"spec":{"hard":{"pods":"10"}}}`)).Error().NotTo(HaveOccurred())
		b.shows(ctx, "workerpool/bad-quota", "Ready", "True")
	}, SpecTimeout(5*time.Minute))
})

func memoryFlow(namespace, name string) string {
	return `apiVersion: workpulling.dev/v1alpha1
kind: WorkPullingFlow
metadata: {name: ` + name + `, namespace: ` + namespace + `}
spec: {queue: {type: Memory}}
`
}
