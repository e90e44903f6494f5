//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/workpulling/workpulling/test/harness"
)

// bed is the namespace of one spec.
type bed struct {
	namespace string
	effects   *harness.Effects
}

// leaving are the namespaces of specs that are over.
var leaving []string

// A finalizer that hangs is seen here; the next specs do not wait for grace periods of the ones before.
var _ = AfterSuite(func(ctx context.Context) {
	for _, namespace := range leaving {
		Expect(kubectl.Get(ctx, "wait", "namespace", namespace, "--for=delete", "--timeout=4m")).Error().NotTo(HaveOccurred())
	}
}, NodeTimeout(10*time.Minute))

// newBed makes a namespace that goes after the spec.
func newBed(ctx context.Context) *bed {
	GinkgoHelper()
	b := &bed{namespace: "e2e-" + strconv.FormatInt(time.Now().UnixNano(), 36)}
	b.effects = &harness.Effects{Kubectl: kubectl, Namespace: b.namespace}
	Expect(kubectl.Get(ctx, "create", "namespace", b.namespace)).Error().NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) {
		if CurrentSpecReport().Failed() {
			b.explain(ctx)
		}
		Expect(kubectl.Get(ctx, "delete", "namespace", b.namespace, "--ignore-not-found", "--wait=false")).Error().NotTo(HaveOccurred())
		leaving = append(leaving, b.namespace)
	}, NodeTimeout(2*time.Minute))
	return b
}

// explain writes what the objects say of themselves into the report.
func (b *bed) explain(ctx context.Context) {
	for _, args := range [][]string{
		{"get", "workpulling,pods,pvc", "-o", "wide"},
		{"describe", "workpulling"},
		{"get", "events", "--sort-by=.lastTimestamp"},
		{"logs", "-l", "workpulling.dev/role=producer", "--all-containers", "--tail=50", "--prefix"},
		{"logs", "-l", "workpulling.dev/role=worker", "--all-containers", "--tail=50", "--prefix"},
	} {
		out, err := kubectl.Get(ctx, append([]string{"-n", b.namespace}, args...)...)
		GinkgoWriter.Printf("\n$ kubectl %s\n%s\n%v\n", strings.Join(args, " "), out, err)
	}
	out, err := kubectl.Get(ctx, "-n", harness.SystemNamespace, "logs", "deployment/workpulling", "--tail=100")
	GinkgoWriter.Printf("\nThe operator:\n%s\n%v\n", out, err)
}

// samples applies the main sample with a patch of its pool, and waits until it is ready.
func (b *bed) samples(ctx context.Context, poolPatch string) {
	GinkgoHelper()
	Expect(kubectl.ApplySamples(ctx, root, images, harness.Overlay{Namespace: b.namespace, PoolPatch: poolPatch}, "config/samples")).To(Succeed())
	b.wait(ctx, "workpullingflow/documents", "Ready")
	b.wait(ctx, "workerpool/documents", "Ready")
	b.tools(ctx)
}

// tools waits for the submitter and the store of effects.
func (b *bed) tools(ctx context.Context) {
	GinkgoHelper()
	for _, object := range []string{"statefulset/effects", "deployment/submitter"} {
		Expect(b.get(ctx, "rollout", "status", object, "--timeout=2m")).Error().NotTo(HaveOccurred())
	}
}

// bad applies one of the samples of mistakes.
func (b *bed) bad(ctx context.Context, file string) {
	GinkgoHelper()
	Expect(kubectl.ApplyFile(ctx, root, images, b.namespace, "config/samples/bad/"+file)).To(Succeed())
}

// beside applies the tools of the samples without a flow and pool, and lets the submitter use every flow.
func (b *bed) beside(ctx context.Context) {
	GinkgoHelper()
	Expect(kubectl.ApplySamples(ctx, root, images, harness.Overlay{Namespace: b.namespace}, "config/samples/tools")).To(Succeed())
	Expect(b.get(ctx, "create", "role", "submit", "--verb=create,get", "--resource=workpullingflows.workpulling.dev/jobs")).Error().NotTo(HaveOccurred())
	Expect(b.get(ctx, "create", "rolebinding", "submit", "--role=submit", "--serviceaccount="+b.namespace+":submitter")).Error().NotTo(HaveOccurred())
}

func (b *bed) get(ctx context.Context, args ...string) (string, error) {
	return kubectl.Get(ctx, append([]string{"-n", b.namespace}, args...)...)
}

func (b *bed) wait(ctx context.Context, object, condition string) {
	GinkgoHelper()
	Expect(b.get(ctx, "wait", object, "--for=condition="+condition, "--timeout=3m")).Error().NotTo(HaveOccurred())
}

// condition returns "<status> <reason>: <message>" of a condition.
func (b *bed) condition(ctx context.Context, object, condition string) (string, error) {
	path := fmt.Sprintf(`{range .status.conditions[?(@.type==%q)]}{.status} {.reason}: {.message}{end}`, condition)
	return b.get(ctx, "get", object, "-o", "jsonpath="+path)
}

// shows waits until a condition is as it should be; want is a prefix of "<status> <reason>: <message>".
func (b *bed) shows(ctx context.Context, object, condition, want string) {
	GinkgoHelper()
	Eventually(b.condition).WithContext(ctx).WithArguments(object, condition).Should(HavePrefix(want))
}

// run is documents that are submitted to one flow.
type run struct {
	bed       *bed
	documents []harness.Document
	submitter *harness.Submitter
	ended     chan error
}

// submit brings count documents into the cluster and submits them in the background.
func (b *bed) submit(ctx context.Context, flow string, count int) *run {
	GinkgoHelper()
	documents, err := harness.Documents(ctx, count, 16<<10)
	Expect(err).NotTo(HaveOccurred())
	return b.submitThese(ctx, flow, documents)
}

func (b *bed) submitThese(ctx context.Context, flow string, documents []harness.Document) *run {
	GinkgoHelper()
	r := &run{bed: b, documents: documents, ended: make(chan error, 1), submitter: &harness.Submitter{
		Kubectl: kubectl, Namespace: b.namespace, Flow: flow, Connections: 16, Source: "/e2e/" + strconv.FormatInt(time.Now().UnixNano(), 36),
	}}
	Expect(r.submitter.Bring(ctx, documents)).To(Succeed())
	go func() {
		_, err := r.submitter.Submit(ctx, func(harness.Progress) {})
		r.ended <- err
	}()
	return r
}

// started waits until at least n jobs have been started.
func (r *run) started(ctx context.Context, n int) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		summary, err := r.bed.effects.Summary(ctx, r.submitter.Source)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(summary.Started).To(BeNumerically(">=", n))
	}).WithContext(ctx).WithPolling(200 * time.Millisecond).Should(Succeed())
}

// accepted waits until every document is accepted.
func (r *run) accepted(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, r.ended).WithTimeout(4 * time.Minute).Should(Receive(BeNil()))
}

// finished waits until every document has its effect, and returns the verdict.
func (r *run) finished(ctx context.Context) harness.Verdict {
	GinkgoHelper()
	var verdict harness.Verdict
	Eventually(func(g Gomega) {
		list, err := r.bed.effects.List(ctx, r.submitter.Source)
		g.Expect(err).NotTo(HaveOccurred())
		verdict = harness.Judge(r.documents, list)
		g.Expect(verdict.Clean()).To(BeTrue(), "%+v", verdict)
	}).WithContext(ctx).WithTimeout(4 * time.Minute).Should(Succeed())
	return verdict
}

// settled waits until the flow holds nothing any more.
func (b *bed) settled(ctx context.Context, flow string) {
	GinkgoHelper()
	Eventually(b.get).WithContext(ctx).WithArguments("get", "workpullingflow", flow, "-o", "jsonpath={.status.backlog} {.status.inFlight} {.status.deadLetters}").
		Should(Equal("0 0 0"))
}

// pods names the live workers of a pool.
func (b *bed) pods(ctx context.Context, pool string) []string {
	GinkgoHelper()
	names, err := b.get(ctx, "get", "pods", "-l", "workpulling.dev/pool="+pool, "--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].metadata.name}")
	Expect(err).NotTo(HaveOccurred())
	return strings.Fields(names)
}

// killThree kills the app of one worker, the runtime of another, and the pod of a third, of a pool that has no more.
func (b *bed) killThree(ctx context.Context, pool string) {
	GinkgoHelper()
	pods := b.pods(ctx, pool)
	Expect(pods).To(HaveLen(3))
	By("killing an app, a runtime and a pod")
	Expect(kubectl.Kill(ctx, b.namespace, pods[0], "/app")).To(Succeed())
	Expect(kubectl.Kill(ctx, b.namespace, pods[1], "/workpulling/sidecar")).To(Succeed())
	Expect(b.get(ctx, "delete", "pod", pods[2], "--grace-period=0", "--force")).Error().NotTo(HaveOccurred())
}

// producing applies the sample of an app beside the producer.
func (b *bed) producing(ctx context.Context) {
	GinkgoHelper()
	Expect(kubectl.ApplySamples(ctx, root, images, harness.Overlay{Namespace: b.namespace}, "config/samples/tools", "config/samples/producer")).To(Succeed())
	b.wait(ctx, "workpullingflow/letters", "Ready")
	b.tools(ctx)
}

func (b *bed) scale(ctx context.Context, replicas int) {
	GinkgoHelper()
	Expect(b.get(ctx, "scale", "workerpool", "documents", "--replicas="+strconv.Itoa(replicas))).Error().NotTo(HaveOccurred())
}

// change patches an object as `kubectl patch --type merge` does.
func (b *bed) change(ctx context.Context, object, patch string) {
	GinkgoHelper()
	Expect(b.get(ctx, "patch", object, "--type=merge", "-p="+patch)).Error().NotTo(HaveOccurred())
}

func ignore(harness.Progress) {}

// create posts an object to a path of the API server, as a node drain does with an eviction.
func (b *bed) create(ctx context.Context, path, object string) error {
	return kubectl.Stream(ctx, strings.NewReader(object), nil, "create", "--raw", path, "-f", "-")
}
