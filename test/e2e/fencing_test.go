//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/test/harness"
)

var _ = Describe("A producer that was paused across a takeover", Label("fencing", "postgres"), func() {
	It("is fenced when it wakes up, and the flow does not notice", func(ctx context.Context) {
		d := newDatabase(ctx)
		b := newBed(ctx)
		b.beside(ctx)
		d.secret(ctx, b, d.DSN(role, "first"))
		b.invoices(ctx)
		active := b.crew(ctx)
		b.wait(ctx, "workerpool/invoices", "Ready")
		b.tools(ctx)
		r := b.submit(ctx, "invoices", 400)
		r.started(ctx, 20)
		epoch := b.epoch(ctx)
		paused := b.podsOf(ctx, "statefulset.kubernetes.io/pod-name="+active)[0]
		before, err := kubectl.PodMetrics(ctx, b.namespace, active)
		Expect(err).NotTo(HaveOccurred())

		By("pausing it, longer than its rivals wait and shorter than kubelet does")
		Expect(harness.Signal(paused.uid, "/workpulling/sidecar", syscall.SIGSTOP)).Error().NotTo(HaveOccurred())
		DeferCleanup(func() { _, _ = harness.Signal(paused.uid, "/workpulling/sidecar", syscall.SIGCONT) })
		b.takenOver(ctx, active)
		Eventually(b.epochNow).WithContext(ctx).Should(BeNumerically(">", epoch))
		Expect(harness.Signal(paused.uid, "/workpulling/sidecar", syscall.SIGCONT)).Error().NotTo(HaveOccurred())

		By("counting one failure where it happened, and none of the flow")
		Eventually(func(g Gomega) {
			metrics, err := harness.MetricsAt(ctx, paused.ip)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(metrics.Total("workpulling_flow_member_fenced_total") - before.Total("workpulling_flow_member_fenced_total")).To(Equal(1.0))
		}).WithContext(ctx).Should(Succeed())
		Expect(b.condition(ctx, "workpullingflow/invoices", "DeliveryFailed")).To(HavePrefix("False "))
		Eventually(func(g Gomega) {
			text, err := b.get(ctx, "get", "events", "--field-selector=reason=ReliableDeliveryFailed", "-o", `jsonpath={range .items[*]}{.message}{"\n"}{end}`)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(strings.Split(strings.TrimSpace(text), "\n")).To(ConsistOf(ContainSubstring("producer " + active + " was fenced at epoch ")))
		}).WithContext(ctx).Should(Succeed())
		b.crew(ctx)
		Consistently(b.condition).WithContext(ctx).WithArguments("workpullingflow/invoices", "Ready").Should(HavePrefix("True "))

		By("losing nothing, and counting every job once")
		r.finish(ctx)
		Expect(b.podsOf(ctx, "statefulset.kubernetes.io/pod-name="+active)[0].uid).To(Equal(paused.uid), "the process is the same, and stands by")
		Expect(b.crew(ctx)).NotTo(Equal(active))
	}, SpecTimeout(10*time.Minute))
})

func (b *bed) epochNow(ctx context.Context) (n int, err error) {
	text, err := b.get(ctx, "get", "workpullingflow/invoices", "-o", "jsonpath={.status.queue.epoch}")
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(text, &n)
	return n, err
}

// apart is a bed on the first node of the cluster and a place for zombies on the second, which is cordoned until somebody is meant to
// come there.
type apart struct {
	*bed
	here, there string
}

func newApart(ctx context.Context) *apart {
	GinkgoHelper()
	a := &apart{}
	nodes := (&bed{}).nodes(ctx)
	Expect(len(nodes)).To(BeNumerically(">", 1), "the cluster has one node")
	a.here, a.there = nodes[0], nodes[1]
	DeferCleanup(func(ctx context.Context) {
		Expect(kubectl.Get(ctx, "uncordon", a.here, a.there)).Error().NotTo(HaveOccurred())
	})
	a.only(ctx, a.here)
	if operator := (&bed{}).operatorPods(ctx)[0]; operator.node != a.here {
		Expect(kubectl.Get(ctx, "-n", harness.SystemNamespace, "delete", "pod", operator.name)).Error().NotTo(HaveOccurred())
		Expect(kubectl.Get(ctx, "-n", harness.SystemNamespace, "rollout", "status", "deployment/workpulling", "--timeout=2m")).Error().NotTo(HaveOccurred())
	}
	a.bed = newBed(ctx)
	return a
}

// only lets new pods come to one node.
func (a *apart) only(ctx context.Context, node string) {
	GinkgoHelper()
	for _, other := range (&bed{}).nodes(ctx) {
		verb := "cordon"
		if other == node {
			verb = "uncordon"
		}
		Expect(kubectl.Get(ctx, verb, other)).Error().NotTo(HaveOccurred())
	}
}

// cut takes the second node off the network, until heal.
func (a *apart) cut(ctx context.Context) {
	GinkgoHelper()
	Expect(cluster(ctx, "partition", a.there)).To(Succeed())
	DeferCleanup(func(ctx context.Context) { a.heal(ctx) }, NodeTimeout(3*time.Minute))
}

func (a *apart) heal(ctx context.Context) {
	GinkgoHelper()
	Expect(cluster(ctx, "heal", a.there)).To(Succeed())
	Expect(kubectl.Get(ctx, "wait", "--for=condition=Ready", "node/"+a.there, "--timeout=2m")).Error().NotTo(HaveOccurred())
}

var _ = Describe("A zombie", Label("fencing", "zombie"), Serial, func() {
	// Long jobs outlive the cut, and each worker has the slots to run those of the other as well.
	const longJobs = `- {op: replace, path: /spec/replicas, value: 1}
- {op: replace, path: /spec/concurrency, value: 10}
- {op: replace, path: /spec/handler/http/timeoutSeconds, value: 120}
- {op: add, path: /spec/template/spec/containers/0/args/-, value: --at-least=40s}`

	// figures are the producer's.
	figures := func(ctx context.Context, a *apart) harness.Metrics {
		GinkgoHelper()
		metrics, err := kubectl.PodMetrics(ctx, a.namespace, "documents-producer-0")
		Expect(err).NotTo(HaveOccurred())
		return metrics
	}
	// holds is how many jobs the producer knows to be with a worker.
	holds := func(metrics harness.Metrics, p pod) float64 {
		return metrics.Total("workpulling_flow_worker_in_flight_jobs", "pod", p.name)
	}
	// working is one worker on each node, each with five jobs that it will finish long after the other was given them.
	working := func(ctx context.Context) (a *apart, r *run, zombie pod) {
		GinkgoHelper()
		a = newApart(ctx)
		a.samples(ctx, longJobs)
		a.near(ctx)
		a.only(ctx, a.there)
		a.scale(ctx, 2)
		Eventually(a.get).WithContext(ctx).WithArguments("get", "workpullingflow/documents", "-o", "jsonpath={.status.workers}").Should(Equal("2"))
		a.only(ctx, a.here)
		for _, p := range a.podsOf(ctx, "workpulling.dev/role=worker") {
			if p.node == a.there {
				zombie = p
			}
		}
		Expect(zombie.name).NotTo(BeEmpty())
		r = a.submit(ctx, "documents", 10)
		r.accepted(ctx)
		r.started(ctx, 10)
		Expect(holds(figures(ctx, a), zombie)).To(Equal(5.0))
		return a, r, zombie
	}
	// requeued waits until the jobs of the zombie are with somebody else, who has begun them.
	requeued := func(ctx context.Context, a *apart, r *run, zombie pod) {
		GinkgoHelper()
		began := time.Now()
		Eventually(func(g Gomega) {
			metrics := figures(ctx, a)
			g.Expect(holds(metrics, zombie)).To(BeZero())
			g.Expect(metrics.Total("workpulling_flow_in_flight_jobs")).To(Equal(10.0))
		}).WithContext(ctx).WithTimeout(25*time.Second).Should(Succeed(), "the deadline of the data plane is 10 s")
		GinkgoWriter.Printf("the jobs were with somebody else after %s\n", time.Since(began).Round(time.Second))
		r.started(ctx, 15)
	}
	// over expects that every job counts once, whoever else finished it.
	over := func(ctx context.Context, a *apart, r *run) {
		GinkgoHelper()
		verdict := r.finished(ctx)
		a.settled(ctx, "documents")
		Expect(figures(ctx, a).Total("workpulling_flow_confirmed_jobs_total")).To(Equal(10.0), "each job is confirmed once")
		Expect(verdict.Redelivered).To(Equal(5), "those of the zombie ran once more")
		GinkgoWriter.Printf("%+v\n", verdict)
	}

	It("that comes back late takes no job back, and what it has finished counts once", func(ctx context.Context) {
		a, r, zombie := working(ctx)
		before := figures(ctx, a)
		a.cut(ctx)
		requeued(ctx, a, r, zombie)
		a.heal(ctx)
		// since is what a figure has grown by.
		since := func(name string, labels ...string) float64 {
			GinkgoHelper()
			return figures(ctx, a).Total(name, labels...) - before.Total(name, labels...)
		}
		By("binding anew, and claiming in vain what it still runs")
		Eventually(func(g Gomega) {
			g.Expect(figures(ctx, a).Total("workpulling_flow_bound_workers")).To(Equal(2.0))
			g.Expect(since("workpulling_flow_dropped_messages_total", "reason", "claim-moved")).To(BeNumerically(">=", 5))
		}).WithContext(ctx).Should(Succeed())
		Expect(since("workpulling_flow_adopted_jobs_total")).To(BeZero())

		By("finishing first, which is proof, and makes the second run count no more")
		over(ctx, a, r)
		Expect(since("workpulling_flow_claimed_outcomes_total")).To(Equal(5.0))
	}, SpecTimeout(10*time.Minute))

	It("whose pod was deleted by force is refused, and changes nothing", func(ctx context.Context) {
		a, r, zombie := working(ctx)
		i := a.intruder(ctx, "documents", "documents", "documents-producer-0")
		a.cut(ctx)
		Expect(a.get(ctx, "delete", "pod", zombie.name, "--grace-period=0", "--force")).Error().NotTo(HaveOccurred())
		requeued(ctx, a, r, zombie)
		Expect(harness.Signal(zombie.uid, "/workpulling/sidecar", 0)).Error().NotTo(HaveOccurred(), "its processes run on")
		By("standing at the door with the token that its volume still holds")
		token := tokenFor(zombie, runtimeconfig.TokenAudience)
		i.isRefused(ctx, token, zombie.uid, transport.LabelPodUnknown)
		a.heal(ctx)
		over(ctx, a, r)
		b := a.podsOf(ctx, "workpulling.dev/role=worker")
		Expect(uidsOf(b)).NotTo(ContainElement(zombie.uid))
	}, SpecTimeout(10*time.Minute))

	It("does not pass its binding on with its address", func(ctx context.Context) {
		a, r, zombie := working(ctx)
		By("letting the next pod of the node have the address of this one")
		a.scale(ctx, 1)
		Expect(a.get(ctx, "delete", "pod", zombie.name, "--grace-period=0", "--force")).Error().NotTo(HaveOccurred())
		var kept *pod
		for _, p := range a.podsOf(ctx, "workpulling.dev/role=worker") {
			kept = &p
		}
		Expect(kept).NotTo(BeNil())
		Eventually(func(g Gomega) { // kubelet ends the processes and gives the address back
			out, err := inMember(ctx, a.there, "ls", "/var/lib/cni/networks/pods")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(strings.Fields(out)).NotTo(ContainElement(zombie.ip))
		}).WithContext(ctx).Should(Succeed())
		Expect(inMember(ctx, a.there, "sh", "-c", "printf %s "+previous(zombie.ip)+" >/var/lib/cni/networks/pods/last_reserved_ip.0")).Error().NotTo(HaveOccurred())
		a.only(ctx, a.there)
		a.scale(ctx, 2)
		var heir pod
		Eventually(func(g Gomega) {
			pods := a.podsOf(ctx, "workpulling.dev/role=worker")
			g.Expect(pods).To(HaveLen(2))
			for _, p := range pods {
				if p.uid != kept.uid {
					heir = p
				}
			}
			g.Expect(heir.ip).To(Equal(zombie.ip))
			g.Expect(figures(ctx, a).Total("workpulling_flow_bound_workers")).To(Equal(2.0))
		}).WithContext(ctx).Should(Succeed())
		Expect(heir.uid).NotTo(Equal(zombie.uid))
		By("refusing the address's former owner, and knowing the new one")
		i := a.intruder(ctx, "documents", "documents", "documents-producer-0")
		i.isRefused(ctx, a.podToken(ctx, heir.name, runtimeconfig.TokenAudience), zombie.uid, transport.LabelPeerMismatch)
		over(ctx, a, r)
	}, SpecTimeout(10*time.Minute))
})

var _ = Describe("A producer on a node that is cut off", Label("fencing", "lock", "long"), Serial, func() {
	It("keeps its successor out of a Local queue by the lock of the file, and loses nothing", func(ctx context.Context) {
		a := newApart(ctx)
		a.only(ctx, a.there)
		Expect(kubectl.ApplyFile(ctx, root, images, a.namespace, "config/samples/flow.yaml")).To(Succeed())
		a.wait(ctx, "workpullingflow/documents", "ProducerAvailable")
		a.only(ctx, a.here)
		a.beside(ctx)
		a.tools(ctx)
		Expect(kubectl.ApplyFile(ctx, root, images, a.namespace, "config/samples/pool.yaml", slowClerks...)).To(Succeed())
		a.wait(ctx, "workerpool/documents", "Ready")
		zombie := a.podsOf(ctx, "workpulling.dev/role=producer")[0]
		Expect(zombie.node).To(Equal(a.there))
		r := a.submit(ctx, "documents", 600)
		r.started(ctx, 20)

		a.cut(ctx)
		Expect(a.get(ctx, "delete", "pod", zombie.name, "--grace-period=0", "--force")).Error().NotTo(HaveOccurred())
		a.shows(ctx, "workpullingflow/documents", "QueueAvailable", "False QueueLocked")
		Expect(a.condition(ctx, "workpullingflow/documents", "QueueAvailable")).To(ContainSubstring(zombie.uid), "it says who holds the lock")
		successor := a.podsOf(ctx, "workpulling.dev/role=producer")[0]
		Expect(successor.uid).NotTo(Equal(zombie.uid))
		Expect(successor.node).To(Equal(a.here))
		Expect(harness.Signal(zombie.uid, "/workpulling/sidecar", 0)).Error().NotTo(HaveOccurred(), "it runs on, and holds the lock")
		Consistently(a.condition).WithContext(ctx).WithArguments("workpullingflow/documents", "QueueAvailable").Should(HavePrefix("False QueueLocked"))
		summary, err := a.effects.Summary(ctx, r.submitter.Source)
		Expect(err).NotTo(HaveOccurred())
		Expect(summary.Effects).To(BeNumerically("<", 600), "there is work left for the successor")

		a.heal(ctx)
		a.wait(ctx, "workpullingflow/documents", "Ready")
		r.accepted(ctx)
		r.finished(ctx)
		a.settled(ctx, "documents")
		Expect(uidsOf(a.podsOf(ctx, "workpulling.dev/role=producer"))).To(ConsistOf(successor.uid), "it waited, and was not replaced")
	}, SpecTimeout(10*time.Minute))
})

// previous is the address before another one, of the same last byte's range.
func previous(ip string) string {
	GinkgoHelper()
	var a, b, c, d int
	Expect(fmt.Sscanf(ip, "%d.%d.%d.%d", &a, &b, &c, &d)).To(Equal(4))
	return fmt.Sprintf("%d.%d.%d.%d", a, b, c, d-1)
}

// inMember runs a command in a member of the local cluster and returns what it says.
func inMember(ctx context.Context, member string, command ...string) (string, error) {
	program := os.Getenv("WORKPULLING_CLUSTER_BIN")
	if program == "" {
		program = filepath.Join(root, "bin", "cluster")
	}
	out, err := exec.CommandContext(ctx, program, append([]string{"nsenter", "--name", os.Getenv("CLUSTER_NAME"), member, "--"}, command...)...).Output()
	return string(out), err
}
