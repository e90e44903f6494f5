//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/workpulling/workpulling/test/harness"
)

// pod is what one has to know of a pod before the API server is away.
type pod struct{ name, uid, ip, node string }

func (b *bed) podsOf(ctx context.Context, selector string) (all []pod) {
	GinkgoHelper()
	text, err := b.get(ctx, "get", "pods", "-l", selector, "-o",
		`jsonpath={range .items[*]}{.metadata.name},{.metadata.uid},{.status.podIP},{.spec.nodeName}{"\n"}{end}`)
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(text) {
		words := strings.Split(strings.TrimSpace(line), ",")
		Expect(words).To(HaveLen(4), line)
		all = append(all, pod{words[0], words[1], words[2], words[3]})
	}
	return all
}

// uidsOf are the UIDs of pods.
func uidsOf(pods []pod) (uids []string) {
	for _, p := range pods {
		uids = append(uids, p.uid)
	}
	slices.Sort(uids)
	return uids
}

// crash kills programs of a pod, as a node's kernel would, and asks no API server.
func (p pod) crash(programs ...string) {
	GinkgoHelper()
	for _, program := range programs {
		Expect(harness.Signal(p.uid, program, syscall.SIGKILL)).Error().NotTo(HaveOccurred())
	}
}

// runs says whether a program of the pod runs, and asks no API server.
func (p pod) runs(program string) bool {
	GinkgoHelper()
	_, err := harness.Signal(p.uid, program, 0)
	if !errors.Is(err, harness.ErrNotHere) {
		Expect(err).NotTo(HaveOccurred())
	}
	return err == nil
}

// outageLasts is three minutes, or what $OUTAGE says.
func outageLasts() time.Duration {
	GinkgoHelper()
	text := os.Getenv("OUTAGE")
	if text == "" {
		return 3 * time.Minute
	}
	length, err := time.ParseDuration(text)
	Expect(err).NotTo(HaveOccurred())
	return length
}

// without goes through an outage of the control plane: a worker and the producer crash in it, and the data plane goes on. lose begins it.
func (b *bed) without(ctx context.Context, l *load, length time.Duration, lose func()) {
	GinkgoHelper()
	workers := b.podsOf(ctx, "workpulling.dev/role=worker")
	producer := b.podsOf(ctx, "workpulling.dev/role=producer")[0]
	lose()
	began := time.Now()
	before, err := l.done(ctx)
	Expect(err).NotTo(HaveOccurred())
	By("going on with what is bound")
	l.progresses(ctx, 20, time.Minute)

	By("going on when a worker has crashed")
	workers[0].crash("/app", "/workpulling/sidecar")
	l.progresses(ctx, 20, time.Minute)

	By("going on when the producer has crashed")
	producer.crash("/workpulling/sidecar")
	crashed := time.Now()
	Eventually(func(g Gomega) {
		metrics, err := harness.MetricsAt(ctx, producer.ip)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(metrics.Total("workpulling_flow_bound_workers")).To(Equal(float64(len(workers))))
		g.Expect(metrics.Total("workpulling_flow_session_age_seconds")).To(BeNumerically("<", time.Since(crashed).Seconds()), "it is the producer that started anew")
	}).WithContext(ctx).WithPolling(200*time.Millisecond).Should(Succeed(), "all workers are bound again, those that had crashed too")
	AddReportEntry("all workers bound again after the producer's crash", time.Since(crashed).Round(100*time.Millisecond).String())
	l.progresses(ctx, 20, time.Minute)

	By("going on to the end of the outage")
	for time.Since(began) < length {
		l.progresses(ctx, 10, time.Minute)
	}
	after, err := l.done(ctx)
	Expect(err).NotTo(HaveOccurred())
	AddReportEntry("jobs done in the outage", fmt.Sprintf("%d in %s", after-before, time.Since(began).Round(time.Second)))
}

var _ = Describe("An outage", Label("outage"), Serial, func() {
	var (
		b *bed
		l *load
	)
	working := func(ctx context.Context) {
		GinkgoHelper()
		b = newBed(ctx)
		b.samples(ctx, slow)
		b.near(ctx)
		l = b.load(ctx, "documents", 200*time.Millisecond)
		l.progresses(ctx, 10, time.Minute)
	}

	It("of the API server stops nothing", Label("long"), func(ctx context.Context) {
		working(ctx)
		before := b.podsOf(ctx, "workpulling.dev/flow=documents")
		b.without(ctx, l, outageLasts(), func() { b.stop(ctx, "control-plane", "kube-apiserver") })
		b.start(ctx, "control-plane", "kube-apiserver")
		over := time.Now()
		By("carrying out orders again, and replacing no pod; kubelet lets an operator that has failed for long wait for up to five minutes")
		l.progresses(ctx, 10, time.Minute)
		b.scale(ctx, len(before)) // the producer is among them: one worker more
		Eventually(b.pods).WithContext(ctx).WithArguments("documents").WithTimeout(7 * time.Minute).Should(HaveLen(len(before)))
		b.bound(ctx, len(before))
		AddReportEntry("one more worker, ordered after the outage, is bound", time.Since(over).Round(time.Second).String())
		b.wait(ctx, "workpullingflow/documents", "Ready")
		b.wait(ctx, "workerpool/documents", "Ready")
		Expect(uidsOf(b.podsOf(ctx, "workpulling.dev/flow=documents"))).To(ContainElements(uidsOf(before)))
		l.stop(ctx)
		b.settled(ctx, "documents")
	}, SpecTimeout(25*time.Minute))

	It("of the operator stops nothing", Label("long"), func(ctx context.Context) {
		working(ctx)
		operators := len(b.operatorPods(ctx))
		DeferCleanup(func(ctx context.Context) { scaleOperator(ctx, operators) }, NodeTimeout(3*time.Minute))
		b.without(ctx, l, 3*time.Minute, func() { scaleOperator(ctx, 0) })
		By("replacing a worker that was deleted meanwhile")
		before := b.podsOf(ctx, "workpulling.dev/flow=documents")
		gone := b.podsOf(ctx, "workpulling.dev/role=worker")[0]
		Expect(b.get(ctx, "delete", "pod", gone.name, "--grace-period=0", "--force")).Error().NotTo(HaveOccurred())
		l.progresses(ctx, 10, time.Minute)
		Expect(b.pods(ctx, "documents")).To(HaveLen(2), "nobody is there to replace it")
		scaleOperator(ctx, operators)
		Eventually(b.pods).WithContext(ctx).WithArguments("documents").Should(HaveLen(3))
		b.bound(ctx, 3)
		b.wait(ctx, "workerpool/documents", "Ready")
		remaining := slices.DeleteFunc(uidsOf(before), func(uid string) bool { return uid == gone.uid })
		Expect(uidsOf(b.podsOf(ctx, "workpulling.dev/flow=documents"))).To(ContainElements(remaining), "no other pod was replaced")
		l.stop(ctx)
		b.settled(ctx, "documents")
	}, SpecTimeout(15*time.Minute))

	It("that ends with an older etcd loses no job", func(ctx context.Context) {
		working(ctx)
		snapshot := filepath.Join(GinkgoT().TempDir(), "snapshot")
		Expect(cluster(ctx, "snapshot", "save", snapshot)).To(Succeed())
		old := b.podsOf(ctx, "workpulling.dev/flow=documents")

		By("scaling the pool, and replacing a worker and the producer, which the snapshot does not know")
		b.scale(ctx, 5)
		Eventually(b.pods).WithContext(ctx).WithArguments("documents").Should(HaveLen(5))
		Expect(b.get(ctx, "delete", "pod", b.podsOf(ctx, "workpulling.dev/role=worker")[0].name, "--grace-period=0", "--force")).Error().NotTo(HaveOccurred())
		Expect(b.get(ctx, "delete", "pod", "documents-producer-0", "--grace-period=0", "--force")).Error().NotTo(HaveOccurred())
		Eventually(b.pods).WithContext(ctx).WithArguments("documents").Should(HaveLen(5))
		b.bound(ctx, 5)
		l.progresses(ctx, 20, 2*time.Minute)
		unknown := slices.DeleteFunc(b.podsOf(ctx, "workpulling.dev/flow=documents"), func(p pod) bool { return slices.Contains(uidsOf(old), p.uid) })
		Expect(len(unknown)).To(BeNumerically(">=", 4), "three workers and the producer")

		By("going back to the snapshot, and starting what runs on the nodes anew, as Kubernetes wants it then")
		Expect(cluster(ctx, "snapshot", "restore", snapshot)).To(Succeed())
		Expect(b.get(ctx, "get", "workerpool/documents", "-o", "jsonpath={.spec.replicas}")).To(Equal("3"))
		for _, node := range b.nodes(ctx) {
			b.stop(ctx, node, "kubelet", "kube-proxy")
			b.start(ctx, node, "kubelet", "kube-proxy")
		}
		l.progresses(ctx, 20, 3*time.Minute)

		By("having what the snapshot knows run, and nothing else")
		Eventually(func(g Gomega) {
			now := b.podsOf(ctx, "workpulling.dev/flow=documents")
			g.Expect(now).To(HaveLen(4))
			for _, p := range now {
				g.Expect(p.runs("/workpulling/sidecar")).To(BeTrue(), p.name)
			}
			for _, p := range unknown {
				g.Expect(p.runs("/workpulling/sidecar")).To(BeFalse(), p.name)
			}
		}).WithContext(ctx).WithTimeout(4 * time.Minute).Should(Succeed())
		b.bound(ctx, 3)
		b.wait(ctx, "workpullingflow/documents", "Ready")
		b.wait(ctx, "workerpool/documents", "Ready")

		By("taking orders again, and carrying them out once")
		b.scale(ctx, 4)
		Eventually(b.pods).WithContext(ctx).WithArguments("documents").Should(HaveLen(4))
		b.bound(ctx, 4)
		Consistently(b.pods).WithContext(ctx).WithArguments("documents").Should(HaveLen(4))
		l.stop(ctx)
		b.settled(ctx, "documents")
	}, SpecTimeout(20*time.Minute))

	It("of the signing key, in the course of its rotation, costs no binding", Label("long"), func(ctx context.Context) {
		working(ctx)
		first := keyOf(tokenIn(b.podsOf(ctx, "workpulling.dev/flow=documents")[0]))
		before := b.bindings(ctx)
		Expect(cluster(ctx, "signing-key", "add")).To(Succeed())
		l.progresses(ctx, 10, time.Minute)
		Expect(cluster(ctx, "signing-key", "use")).To(Succeed())
		l.progresses(ctx, 10, time.Minute)
		b.unharmed(ctx, before)

		By("waiting until every pod has a token of the new key, which a kubelet that starts asks for")
		for _, node := range b.nodes(ctx) {
			b.stop(ctx, node, "kubelet")
			b.start(ctx, node, "kubelet")
		}
		mine := append(b.podsOf(ctx, "workpulling.dev/flow=documents"), b.operatorPods(ctx)...)
		Eventually(func(g Gomega) {
			for _, p := range mine {
				for _, path := range tokensIn(p) {
					token, err := os.ReadFile(path)
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(keyOf(string(token))).NotTo(Equal(first), path)
				}
			}
		}).WithContext(ctx).WithTimeout(5 * time.Minute).Should(Succeed())
		l.renew(ctx)
		l.progresses(ctx, 10, time.Minute)

		Expect(cluster(ctx, "signing-key", "retire")).To(Succeed())
		l.progresses(ctx, 10, time.Minute)
		b.unharmed(ctx, before)

		By("binding anew with a token of the new key")
		crashed := b.podsOf(ctx, "workpulling.dev/role=worker")[0]
		crashed.crash("/workpulling/sidecar")
		Eventually(b.get).WithContext(ctx).WithArguments("get", "pod", crashed.name, "-o",
			`jsonpath={.status.initContainerStatuses[?(@.name=="workpulling-sidecar")].restartCount}`).Should(Equal("1"))
		b.scale(ctx, 4)
		b.wait(ctx, "workerpool/documents", "Ready")
		b.bound(ctx, 4)
		l.stop(ctx)
		b.settled(ctx, "documents")
		Expect(b.pods(ctx, "documents")).To(ContainElements(before.pods))
	}, SpecTimeout(15*time.Minute))
})

// bound waits until the producer that is there reports so many workers with a binding.
func (b *bed) bound(ctx context.Context, workers int) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		metrics, err := kubectl.PodMetrics(ctx, b.namespace, "documents-producer-0")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(metrics.Total("workpulling_flow_bound_workers")).To(BeEquivalentTo(workers))
		status, err := b.get(ctx, "get", "workpullingflow/documents", "-o", "jsonpath={.status.workers}")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(status).To(Equal(strconv.Itoa(workers)))
	}).WithContext(ctx).WithTimeout(3 * time.Minute).Should(Succeed())
}

// stop stops components of the local cluster until the spec ends at the latest.
func (b *bed) stop(ctx context.Context, member string, components ...string) {
	GinkgoHelper()
	Expect(cluster(ctx, append([]string{"stop", member}, components...)...)).To(Succeed())
	DeferCleanup(func(ctx context.Context) { b.start(ctx, member, components...) }, NodeTimeout(4*time.Minute))
}

func (b *bed) start(ctx context.Context, member string, components ...string) {
	GinkgoHelper()
	Expect(cluster(ctx, append([]string{"start", member}, components...)...)).To(Succeed())
}

func (b *bed) nodes(ctx context.Context) []string {
	GinkgoHelper()
	names, err := kubectl.Get(ctx, "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}")
	Expect(err).NotTo(HaveOccurred())
	return strings.Fields(names)
}

// scaleOperator waits until the operator has so many pods.
func scaleOperator(ctx context.Context, replicas int) {
	GinkgoHelper()
	n := strconv.Itoa(replicas)
	Expect(kubectl.Get(ctx, "-n", harness.SystemNamespace, "scale", "deployment/workpulling", "--replicas="+n)).Error().NotTo(HaveOccurred())
	Eventually(func(g Gomega) {
		pods, err := kubectl.Get(ctx, "-n", harness.SystemNamespace, "get", "pods", "-o", "name")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(strings.Fields(pods)).To(HaveLen(replicas))
	}).WithContext(ctx).Should(Succeed())
	Expect(kubectl.Get(ctx, "-n", harness.SystemNamespace, "rollout", "status", "deployment/workpulling", "--timeout=2m")).Error().NotTo(HaveOccurred())
}
