//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/test/harness"
)

// held is what a Lease says: who holds it, and how many have.
type held struct {
	uid, holder string
	transitions int
}

func (b *bed) lease(ctx context.Context, name string) (l held, err error) {
	text, err := b.get(ctx, "get", "lease", name, "-o", "jsonpath={.metadata.uid} {.spec.holderIdentity} {.spec.leaseTransitions}")
	if err != nil {
		return held{}, err
	}
	_, err = fmt.Sscan(text, &l.uid, &l.holder, &l.transitions)
	return l, err
}

func leaseOf(p pod) string { return runtimeconfig.WorkerLeaseName(p.uid) }

// bootOf is the process of a pod that a Lease names.
func bootOf(l held, p pod) string {
	GinkgoHelper()
	uid, boot, _ := strings.Cut(l.holder, "/")
	Expect(uid).To(Equal(p.uid), "it is another pod's")
	Expect(boot).NotTo(BeEmpty())
	return boot
}

// successor waits until another process of the pod holds the pod's Lease.
func (b *bed) successor(ctx context.Context, p pod, former held, within time.Duration) (now held) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var err error
		now, err = b.lease(ctx, leaseOf(p))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(now.holder).NotTo(Equal(former.holder))
	}).WithContext(ctx).WithTimeout(within).WithPolling(200 * time.Millisecond).Should(Succeed())
	return now
}

var _ = Describe("The Lease of a worker", Label("identity"), func() {
	// working is the sample at work, and the worker that the spec is about.
	working := func(ctx context.Context) (*bed, *load, pod) {
		GinkgoHelper()
		b := newBed(ctx)
		b.samples(ctx, slow)
		b.near(ctx)
		l := b.load(ctx, "documents", 200*time.Millisecond)
		l.progresses(ctx, 10, time.Minute)
		return b, l, b.podsOf(ctx, "workpulling.dev/role=worker")[0]
	}
	// bound waits until the producer knows so many workers.
	bound := func(ctx context.Context, b *bed, workers float64, within time.Duration) {
		GinkgoHelper()
		producer := b.podsOf(ctx, "workpulling.dev/role=producer")[0]
		Eventually(func(g Gomega) {
			metrics, err := harness.MetricsAt(ctx, producer.ip)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(metrics.Total("workpulling_flow_bound_workers")).To(Equal(workers))
		}).WithContext(ctx).WithTimeout(within).WithPolling(100 * time.Millisecond).Should(Succeed())
	}
	// served expects that the pods are those of before, that all of them pull, and that no job was lost.
	served := func(ctx context.Context, b *bed, l *load, before []pod) {
		GinkgoHelper()
		l.progresses(ctx, 10, time.Minute)
		l.stop(ctx)
		b.settled(ctx, "documents")
		b.wait(ctx, "workerpool/documents", "Ready")
		Expect(uidsOf(b.podsOf(ctx, "workpulling.dev/flow=documents"))).To(Equal(uidsOf(before)), "no pod was replaced")
	}

	It("goes to the process that comes after a killed one, and what the first says counts no more", func(ctx context.Context) {
		b, l, worker := working(ctx)
		before := b.podsOf(ctx, "workpulling.dev/flow=documents")
		first, err := b.lease(ctx, leaseOf(worker))
		Expect(err).NotTo(HaveOccurred())
		Expect(first.transitions).To(Equal(1))
		boot := bootOf(first, worker)

		worker.crash("/workpulling/sidecar")
		second := b.successor(ctx, worker, first, time.Minute)
		Expect(second.uid).To(Equal(first.uid), "the Lease is the same")
		Expect(second.transitions).To(Equal(2))
		Expect(bootOf(second, worker)).NotTo(Equal(boot))
		bound(ctx, b, 3, time.Minute)

		By("standing at the door as the first process, and as one that nobody knows, with the token of the pod")
		i := b.intruder(ctx, "documents", "documents", "documents-producer-0")
		token := tokenFor(worker, runtimeconfig.TokenAudience)
		i.isRefusedAs(ctx, token, protocol.Incarnation{PodUID: worker.uid, BootNonce: boot}, transport.LabelLeaseHeld)
		i.isRefusedAs(ctx, token, protocol.Incarnation{PodUID: worker.uid, BootNonce: "somebody"}, transport.LabelLeaseHeld)

		By("leaving the binding of the second as it was")
		bound(ctx, b, 3, time.Second)
		now, err := b.lease(ctx, leaseOf(worker))
		Expect(err).NotTo(HaveOccurred())
		Expect(now).To(Equal(second))
		served(ctx, b, l, before)
	}, SpecTimeout(6*time.Minute))

	It("ends the binding where it is deleted, and the pod's next process binds by a new one", func(ctx context.Context) {
		b, l, worker := working(ctx)
		before := b.podsOf(ctx, "workpulling.dev/flow=documents")
		first, err := b.lease(ctx, leaseOf(worker))
		Expect(err).NotTo(HaveOccurred())

		began := time.Now()
		Expect(b.get(ctx, "delete", "lease", leaseOf(worker))).Error().NotTo(HaveOccurred())
		bound(ctx, b, 2, 10*time.Second)
		// The producer's word makes the process look, long before it would renew the Lease.
		second := b.successor(ctx, worker, first, 25*time.Second)
		AddReportEntry("the next process had its Lease after", time.Since(began).Round(time.Second).String())
		Expect(second.uid).NotTo(Equal(first.uid))
		Expect(second.transitions).To(Equal(1), "it is a Lease of its own")
		bound(ctx, b, 3, time.Minute)

		By("refusing the process whose Lease that was")
		i := b.intruder(ctx, "documents", "documents", "documents-producer-0")
		former := protocol.Incarnation{PodUID: worker.uid, BootNonce: bootOf(first, worker)}
		i.isRefusedAs(ctx, tokenFor(worker, runtimeconfig.TokenAudience), former, transport.LabelLeaseHeld)
		served(ctx, b, l, before)
	}, SpecTimeout(6*time.Minute))

	It("is the only one that the worker's token may write", func(ctx context.Context) {
		b := newBed(ctx)
		b.samples(ctx, "")
		b.near(ctx)
		workers := b.podsOf(ctx, "workpulling.dev/role=worker")
		mine, others := leaseOf(workers[0]), leaseOf(workers[1])
		neighbour, err := b.lease(ctx, others)
		Expect(err).NotTo(HaveOccurred())

		By("having another application in the namespace, which elects by a Lease")
		Expect(b.get(ctx, "create", "serviceaccount", "shop")).Error().NotTo(HaveOccurred())
		Expect(b.get(ctx, "create", "role", "shop", "--verb=get,create,patch", "--resource=leases")).Error().NotTo(HaveOccurred())
		Expect(b.get(ctx, "create", "rolebinding", "shop", "--role=shop", "--serviceaccount="+b.namespace+":shop")).Error().NotTo(HaveOccurred())
		token, err := b.get(ctx, "create", "token", "shop")
		Expect(err).NotTo(HaveOccurred())
		shop := b.as(ctx, strings.TrimSpace(token))
		Expect(shop.createLease(ctx, "shop-leader", "shop-0")).To(Succeed())
		Expect(shop.holdLease(ctx, "shop-leader", "shop-1")).To(Succeed())

		worker := b.as(ctx, apiToken(workers[0]))
		me := workers[0].uid + "/spec"
		By("touching its own")
		Expect(worker.patchLease(ctx, mine, `{"metadata":{"annotations":{"example.com/seen":"yes"}}}`)).To(Succeed())
		By("touching what is not its own")
		ofOthers := MatchError(And(ContainSubstring("ValidatingAdmissionPolicy"), ContainSubstring("may touch the Lease "+mine+" in its namespace alone")))
		Expect(worker.holdLease(ctx, others, me)).To(ofOthers)
		Expect(worker.holdLease(ctx, "shop-leader", me)).To(ofOthers)
		Expect(worker.createLease(ctx, "billing-leader", me)).To(ofOthers)
		By("holding its own as another")
		Expect(worker.holdLease(ctx, mine, workers[1].uid+"/spec")).To(MatchError(ContainSubstring("a worker holds its Lease as <UID of its pod>/<boot nonce>")))
		By("using the account without a pod")
		token, err = b.get(ctx, "create", "token", "documents-worker")
		Expect(err).NotTo(HaveOccurred())
		unbound := b.as(ctx, strings.TrimSpace(token))
		Expect(unbound.holdLease(ctx, mine, me)).To(MatchError(ContainSubstring("it may touch Leases with the token of a worker pod alone")))

		By("leaving all as it was")
		Expect(b.lease(ctx, others)).To(Equal(neighbour))
		Expect(b.get(ctx, "get", "lease", "shop-leader", "-o", "jsonpath={.spec.holderIdentity}")).To(Equal("shop-1"))
		Expect(b.get(ctx, "get", "lease", "billing-leader", "--ignore-not-found", "-o", "name")).To(BeEmpty())
	}, SpecTimeout(6*time.Minute))
})

// caller is somebody with a token in the namespace of a bed.
type caller struct {
	*harness.Kubectl
	namespace string
}

// as speaks to the API server with a token and nothing else.
func (b *bed) as(ctx context.Context, token string) caller {
	GinkgoHelper()
	text, err := kubectl.Get(ctx, "config", "view", "--minify", "--flatten", "--raw", "-o", "jsonpath={.clusters[0].cluster}")
	Expect(err).NotTo(HaveOccurred())
	config, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "it",
		"clusters": []any{map[string]any{"name": "it", "cluster": json.RawMessage(text)}},
		"users":    []any{map[string]any{"name": "it", "user": map[string]string{"token": token}}},
		"contexts": []any{map[string]any{"name": "it", "context": map[string]string{"cluster": "it", "user": "it"}}},
	})
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(path, config, 0o600)).To(Succeed())
	return caller{&harness.Kubectl{Command: kubectl.Command, Kubeconfig: path}, b.namespace}
}

// createLease makes a Lease that holder holds.
func (c caller) createLease(ctx context.Context, name, holder string) error {
	object := fmt.Sprintf(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":%q},"spec":{"holderIdentity":%q}}`, name, holder)
	return c.Stream(ctx, strings.NewReader(object), nil, "-n", c.namespace, "create", "--validate=false", "-f", "-")
}

// holdLease takes a Lease.
func (c caller) holdLease(ctx context.Context, name, holder string) error {
	return c.patchLease(ctx, name, fmt.Sprintf(`{"spec":{"holderIdentity":%q}}`, holder))
}

func (c caller) patchLease(ctx context.Context, name, patch string) error {
	return c.Stream(ctx, nil, nil, "-n", c.namespace, "patch", "lease", name, "--type=merge", "-p="+patch)
}

// apiToken is the token with which a pod speaks to the API server.
func apiToken(p pod) string {
	GinkgoHelper()
	for _, file := range tokensIn(p) {
		token, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		if !strings.Contains(string(claimsOf(string(token))), `"`+runtimeconfig.TokenAudience+`"`) {
			return string(token)
		}
	}
	Fail("pod " + p.name + " has no token for the API server")
	return ""
}
