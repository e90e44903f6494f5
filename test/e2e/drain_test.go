//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A worker that leaves under load", Label("drain"), func() {
	// leaving lets workers leave in the middle of a run, in whatever way, and expects that no job was started twice.
	leaving := func(leave func(context.Context, *bed)) func(context.Context) {
		return func(ctx context.Context) {
			b := newBed(ctx)
			b.samples(ctx, slow)
			r := b.submit(ctx, "documents", 300)
			r.started(ctx, 50)
			leave(ctx, b)
			r.accepted(ctx)
			Expect(r.finished(ctx).Redelivered).To(BeZero(), "every job is shorter than the drain")
			b.wait(ctx, "workerpool/documents", "Ready")
		}
	}

	It("by deletion of its pod finishes what it runs", leaving(func(ctx context.Context, b *bed) {
		GinkgoHelper()
		Expect(b.get(ctx, "delete", "pod", b.pods(ctx, "documents")[0])).Error().NotTo(HaveOccurred())
	}), SpecTimeout(6*time.Minute))

	It("by a rollout finishes what it runs", leaving(func(ctx context.Context, b *bed) {
		GinkgoHelper()
		Expect(b.get(ctx, "patch", "workerpool/documents", "--type=json",
			`-p=[{"op":"add","path":"/spec/template/metadata/annotations","value":{"example.com/restarted":"now"}}]`)).Error().NotTo(HaveOccurred())
		Eventually(b.get).WithContext(ctx).WithArguments("get", "workerpool/documents", "-o", "jsonpath={.status.updated} {.status.draining}").
			WithTimeout(4 * time.Minute).Should(Equal("3 0"))
	}), SpecTimeout(6*time.Minute))

	It("by eviction finishes what it runs", leaving(func(ctx context.Context, b *bed) {
		GinkgoHelper()
		pod := b.pods(ctx, "documents")[0]
		eviction := `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"` + pod + `","namespace":"` + b.namespace + `"}}`
		Expect(b.create(ctx, "/api/v1/namespaces/"+b.namespace+"/pods/"+pod+"/eviction", eviction)).To(Succeed())
	}), SpecTimeout(6*time.Minute))
})
