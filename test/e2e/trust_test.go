//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/workpulling/workpulling/test/harness"
)

var _ = Describe("A namespace that a flow trusts", Label("identity"), func() {
	It("submits without a token until it is trusted no more, and nobody else does", func(ctx context.Context) {
		b, elsewhere := newBed(ctx), newBed(ctx)
		b.samples(ctx, "")
		Expect(kubectl.Get(ctx, "label", "namespace", b.namespace, "pod-security.kubernetes.io/enforce=privileged", "--overwrite")).
			Error().NotTo(HaveOccurred(), "the samples are restricted, and a pod with hostNetwork comes")
		elsewhere.knowsCA(ctx, b)
		nodes := (&bed{}).nodes(ctx)
		Expect(len(nodes)).To(BeNumerically(">", 1), "the cluster has one node")
		producers := b.uids(ctx)
		var neighbours, strangers, processes []*tokenless
		for _, node := range nodes {
			neighbours = append(neighbours, b.caller(ctx, b, node, false))
			strangers = append(strangers, b.caller(ctx, elsewhere, node, false))
			processes = append(processes, b.caller(ctx, elsewhere, node, true))
		}

		By("asking everybody for a token at first")
		b.authenticates(ctx, "True Tokens")
		for _, neighbour := range neighbours {
			neighbour.isRefused(ctx, "token-missing")
		}

		By("opening the door")
		b.trust(ctx, "TrustedNamespace")
		b.authenticates(ctx, "False TrustedNamespace")
		var runs []*run
		for _, neighbour := range neighbours {
			runs = append(runs, neighbour.submits(ctx, 20))
		}

		By("leaving it shut for other namespaces, and for what runs on a node")
		for _, other := range append(strangers, processes...) {
			other.isJudged(ctx)
		}
		for _, node := range nodes {
			b.caller(ctx, b, node, true).isJudged(ctx)
		}
		before := b.judged(ctx, "address-.*")
		_, err := kubectl.Proxy(ctx, b.namespace, "services/https:documents-intake:443", "/v1/flows/documents/jobs/any")
		Expect(err).To(HaveOccurred(), "the API server passes a request on from its own address")
		Expect(b.judged(ctx, "address-.*")).To(BeNumerically(">", before))

		By("letting a token in as before")
		runs = append(runs, b.submit(ctx, "documents", 20))
		runs[len(runs)-1].accepted(ctx)

		By("confirming every job, and saying so to who submitted it")
		for _, r := range runs {
			r.finished(ctx)
			checked, err := r.submitter.Check(ctx, ignore)
			Expect(err).NotTo(HaveOccurred())
			Expect(checked.Accepted).To(BeEquivalentTo(20))
		}
		b.settled(ctx, "documents")

		By("shutting it")
		b.trust(ctx, "Token")
		b.authenticates(ctx, "True Tokens")
		for _, neighbour := range neighbours {
			neighbour.isRefused(ctx, "token-missing")
		}
		last := b.submit(ctx, "documents", 20)
		last.accepted(ctx)
		last.finished(ctx)
		Expect(b.uids(ctx)).To(Equal(producers), "the producer was not restarted for it")
	}, SpecTimeout(12*time.Minute))
})

// trust sets who may submit to the flow of the samples.
func (b *bed) trust(ctx context.Context, authentication string) {
	GinkgoHelper()
	b.change(ctx, "workpullingflow/documents", fmt.Sprintf(`{"spec":{"intake":{"authentication":%q}}}`, authentication))
}

// authenticates waits until the condition says so and the producer works by it: its ConfigMap comes with kubelet, in a minute or two.
func (b *bed) authenticates(ctx context.Context, want string) {
	GinkgoHelper()
	began := time.Now()
	Eventually(b.condition).WithContext(ctx).WithTimeout(4*time.Minute).WithArguments("workpullingflow/documents", "IntakeAuthenticated").
		Should(And(HavePrefix(want), Not(ContainSubstring("has not taken"))))
	AddReportEntry("taken", want+" after "+time.Since(began).Round(100*time.Millisecond).String())
}

// judged is how many callers without a token had an outcome that the expression describes.
func (b *bed) judged(ctx context.Context, outcome string) (n float64) {
	GinkgoHelper()
	metrics, err := kubectl.PodMetrics(ctx, b.namespace, "documents-producer-0")
	Expect(err).NotTo(HaveOccurred())
	for _, metric := range metrics["workpulling_intake_tokenless_callers_total"].GetMetric() {
		for _, label := range metric.GetLabel() {
			if regexp.MustCompile("^" + outcome + "$").MatchString(label.GetValue()) {
				n += metric.GetCounter().GetValue()
			}
		}
	}
	return n
}

// knowsCA gives a namespace without a flow the certificates of another one's flows.
func (b *bed) knowsCA(ctx context.Context, other *bed) {
	GinkgoHelper()
	bundle, err := other.get(ctx, "get", "configmap", "workpulling-ca", "-o", `jsonpath={.data.ca\.crt}`)
	Expect(err).NotTo(HaveOccurred())
	Expect(b.get(ctx, "create", "configmap", "workpulling-ca", "--from-literal=ca.crt="+bundle)).Error().NotTo(HaveOccurred())
}

// tokenless is a pod that calls the intake of a flow through its Service, without a token.
type tokenless struct {
	flow *bed
	home string // namespace
	pod
}

// caller runs one on a node, on the network of the node or on its own.
func (b *bed) caller(ctx context.Context, home *bed, node string, onHost bool) *tokenless {
	GinkgoHelper()
	name := "caller-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	manifest := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: %[2]s, labels: {caller: %[1]s}}
spec:
  nodeName: %[3]s
  hostNetwork: %[4]t
  dnsPolicy: ClusterFirstWithHostNet
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  containers:
    - name: app
      image: %[5]s:%[6]s
      args: [wait]
      volumeMounts: [{name: documents, mountPath: /documents}, {name: ca, mountPath: /etc/workpulling/ca}]
  volumes: [{name: documents, emptyDir: {}}, {name: ca, configMap: {name: workpulling-ca}}]
  securityContext: {fsGroup: 65532}
`, name, home.namespace, node, onHost, images.AppRepository, images.Tag)
	Eventually(kubectl.Apply).WithContext(ctx).WithArguments(manifest).Should(Succeed(), "the ServiceAccount of a new namespace comes a moment later")
	home.wait(ctx, "pod/"+name, "Ready")
	return &tokenless{flow: b, home: home.namespace, pod: home.podsOf(ctx, "caller="+name)[0]}
}

// brings prepares documents in the pod.
func (c *tokenless) brings(ctx context.Context, count int) *run {
	GinkgoHelper()
	documents, err := harness.Documents(ctx, count, 16<<10)
	Expect(err).NotTo(HaveOccurred())
	r := &run{bed: c.flow, documents: documents, submitter: &harness.Submitter{
		Kubectl: kubectl, Namespace: c.flow.namespace, Flow: "documents", Connections: 4, Source: "/e2e/" + c.name,
		From: []string{"-n", c.home, "pod/" + c.name}, Tokenless: true,
	}}
	Expect(r.submitter.Bring(ctx, documents)).To(Succeed())
	return r
}

// submits expects that every document is accepted and counted.
func (c *tokenless) submits(ctx context.Context, count int) *run {
	GinkgoHelper()
	before := c.flow.judged(ctx, "admitted")
	r := c.brings(ctx, count)
	last, err := r.submitter.Submit(ctx, ignore)
	Expect(err).NotTo(HaveOccurred(), "%+v", c.pod)
	Expect(last.Accepted).To(BeEquivalentTo(count))
	Expect(c.flow.judged(ctx, "admitted")).To(BeNumerically(">=", before+float64(count)))
	return r
}

// isRefused expects a refusal for a reason, given as an expression, and returns the reason.
func (c *tokenless) isRefused(ctx context.Context, reason string) string {
	GinkgoHelper()
	last, err := c.brings(ctx, 1).submitter.Submit(ctx, ignore)
	Expect(last.Accepted).To(BeZero(), "%+v", c.pod)
	refused := (*harness.CommandError)(nil)
	Expect(errors.As(err, &refused)).To(BeTrue(), "%v", err)
	found := regexp.MustCompile(`refused with 40[13] .*(` + reason + `)`).FindStringSubmatch(refused.Stderr)
	Expect(found).To(HaveLen(2), "%+v: %s", c.pod, refused.Stderr)
	return found[1]
}

// isJudged expects a refusal because of the address, which is counted under its reason.
func (c *tokenless) isJudged(ctx context.Context) {
	GinkgoHelper()
	before := map[string]float64{}
	for _, reason := range []string{"address-host", "address-unknown"} {
		before[reason] = c.flow.judged(ctx, reason)
	}
	reason := c.isRefused(ctx, "address-host|address-unknown")
	Expect(c.flow.judged(ctx, reason)).To(BeNumerically(">", before[reason]), "%+v: %s", c.pod, reason)
	AddReportEntry("refused", fmt.Sprintf("%s of %s on %s: %s", c.ip, c.home, c.node, reason))
}
