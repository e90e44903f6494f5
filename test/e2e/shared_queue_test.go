//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// invoices applies the sample of a flow with three producers and a PostgreSQL queue, and does not wait for it.
func (b *bed) invoices(ctx context.Context) {
	GinkgoHelper()
	Expect(kubectl.ApplyFile(ctx, root, images, b.namespace, "config/samples/postgresql/flow.yaml")).To(Succeed())
	Expect(kubectl.ApplyFile(ctx, root, images, b.namespace, "config/samples/postgresql/pool.yaml", slowClerks...)).To(Succeed())
}

// crew waits until a producer has the queue and all others could take it over, and returns the name of the one that has it.
func (b *bed) crew(ctx context.Context) (active string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		status, err := b.get(ctx, "get", "workpullingflow/invoices", "-o", "jsonpath={.status.producer.readyStandbys} {.status.producer.activePod}")
		g.Expect(err).NotTo(HaveOccurred())
		standbys, pod, _ := strings.Cut(status, " ")
		g.Expect(standbys).To(Equal("2"))
		g.Expect(pod).To(HavePrefix("invoices-producer-"))
		active = pod
	}).WithContext(ctx).WithTimeout(3 * time.Minute).Should(Succeed())
	b.wait(ctx, "workpullingflow/invoices", "Ready")
	return active
}

// epoch is the generation of the queue's writer: how often it was loaded.
func (b *bed) epoch(ctx context.Context) (n int) {
	GinkgoHelper()
	text, err := b.get(ctx, "get", "workpullingflow/invoices", "-o", "jsonpath={.status.queue.epoch}")
	Expect(err).NotTo(HaveOccurred())
	Expect(fmt.Sscan(text, &n)).To(Equal(1))
	return n
}

// takenOver waits for the Event that another producer took the queue over. It may be back at a pod of the former's name by then.
func (b *bed) takenOver(ctx context.Context, former string) {
	GinkgoHelper()
	Eventually(b.get).WithContext(ctx).WithArguments("get", "events", "--field-selector=reason=QueueTakenOver", "-o", "jsonpath={.items[*].message}").
		Should(ContainSubstring("took the queue over from " + former))
}

// post submits a job at one producer, whoever has the queue, and returns the status of the answer.
func (b *bed) post(ctx context.Context, pod, key string) (int, error) {
	address, err := b.get(ctx, "get", "pod", pod, "-o", "jsonpath={.status.podIP}")
	if err != nil {
		return 0, err
	}
	bundle, err := b.get(ctx, "get", "configmap", "workpulling-ca", "-o", `jsonpath={.data.ca\.crt}`)
	if err != nil {
		return 0, err
	}
	token, err := b.get(ctx, "create", "token", "submitter", "--audience=workpulling.dev")
	if err != nil {
		return 0, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(bundle))
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(address, "9444"))
		},
	}}
	target := "https://invoices-intake." + b.namespace + ".svc/v1/flows/invoices/jobs"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader("posted at "+pod+"\n"))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	request.Header.Set("Idempotency-Key", key)
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// finish waits until the run is over in every respect.
func (r *run) finish(ctx context.Context) (redelivered int) {
	GinkgoHelper()
	r.accepted(ctx)
	redelivered = r.finished(ctx).Redelivered
	r.bed.settled(ctx, "invoices")
	return redelivered
}

var _ = Describe("Producers that share a database", Label("postgres"), func() {
	var (
		b      *bed
		d      *database
		active string
	)
	// working is the sample at work, with jobs under way.
	working := func(ctx context.Context) *run {
		GinkgoHelper()
		d = newDatabase(ctx)
		b = newBed(ctx)
		b.beside(ctx)
		d.secret(ctx, b, d.DSN(role, "first"))
		b.invoices(ctx)
		active = b.crew(ctx)
		b.wait(ctx, "workerpool/invoices", "Ready")
		b.tools(ctx)
		r := b.submit(ctx, "invoices", 300)
		r.started(ctx, 20)
		return r
	}

	It("take jobs at each of them, and another takes over when the pod of the owner is deleted by force", func(ctx context.Context) {
		r := working(ctx)
		By("showing who has the queue")
		Expect(b.get(ctx, "get", "workpullingflow/invoices", "-o", "wide")).To(MatchRegexp(`ACTIVE +STANDBYS`))
		Expect(b.get(ctx, "get", "workpullingflow/invoices", "-o", "wide")).To(MatchRegexp(active + ` +2 `))
		for i := range 3 {
			Expect(b.post(ctx, fmt.Sprintf("invoices-producer-%d", i), fmt.Sprintf("first-%d", i))).To(Equal(http.StatusCreated))
		}
		epoch := b.epoch(ctx)
		Expect(b.get(ctx, "delete", "pod", active, "--grace-period=0", "--force")).Error().NotTo(HaveOccurred())
		b.takenOver(ctx, active)
		b.crew(ctx)
		Expect(b.epoch(ctx)).To(BeNumerically(">", epoch))
		for i := range 3 {
			Expect(b.post(ctx, fmt.Sprintf("invoices-producer-%d", i), fmt.Sprintf("first-%d", i))).To(Equal(http.StatusOK), "it is known")
			Expect(b.post(ctx, fmt.Sprintf("invoices-producer-%d", i), fmt.Sprintf("second-%d", i))).To(Equal(http.StatusCreated))
		}
		r.finish(ctx)
	}, SpecTimeout(8*time.Minute))

	It("are one fewer for a moment when the process of the owner is killed", func(ctx context.Context) {
		r := working(ctx)
		Expect(kubectl.Kill(ctx, b.namespace, active, "/workpulling/sidecar")).To(Succeed())
		b.takenOver(ctx, active)
		b.crew(ctx)
		r.finish(ctx)
	}, SpecTimeout(8*time.Minute))

	It("hand the queue over when the node of the owner is drained, and interrupt no job", func(ctx context.Context) {
		r := working(ctx)
		node, err := b.get(ctx, "get", "pod", active, "-o", "jsonpath={.spec.nodeName}")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx context.Context) { Expect(kubectl.Get(ctx, "uncordon", node)).Error().NotTo(HaveOccurred()) })
		Expect(kubectl.Get(ctx, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=3m",
			"--pod-selector=workpulling.dev/role=producer,workpulling.dev/flow=invoices")).Error().NotTo(HaveOccurred())
		b.takenOver(ctx, active)
		Expect(b.get(ctx, "get", "pods", "-l", "workpulling.dev/flow=invoices,workpulling.dev/role=producer", "--field-selector=spec.nodeName="+node, "-o", "name")).
			To(BeEmpty())
		Expect(kubectl.Get(ctx, "uncordon", node)).Error().NotTo(HaveOccurred())
		b.crew(ctx)
		Expect(r.finish(ctx)).To(BeZero(), "workers claim what they run at the new owner")
	}, SpecTimeout(10*time.Minute))

	It("wait for a database that is away, and lose nothing", func(ctx context.Context) {
		r := working(ctx)
		Expect(d.Kill()).To(Succeed())
		b.shows(ctx, "workpullingflow/invoices", "QueueAvailable", "False StoreUnavailable")
		Consistently(b.condition).WithContext(ctx).WithArguments("workpullingflow/invoices", "QueueAvailable").WithTimeout(20*time.Second).
			Should(HavePrefix("False StoreUnavailable"), "for as long as it is away")
		Expect(d.Run()).To(Succeed())
		b.shows(ctx, "workpullingflow/invoices", "QueueAvailable", "True")
		b.crew(ctx)
		r.finish(ctx)
	}, SpecTimeout(8*time.Minute))

	It("read a changed password without a restart", func(ctx context.Context) {
		r := working(ctx)
		pods := b.uids(ctx)
		d.exec(ctx, "postgres", "ALTER ROLE "+role+" PASSWORD 'second'")
		d.disconnect(ctx, role)
		b.shows(ctx, "workpullingflow/invoices", "QueueAvailable", "False StoreUnavailable")
		d.secret(ctx, b, d.DSN(role, "second"))
		b.crew(ctx)
		r.finish(ctx)
		Expect(b.uids(ctx)).To(Equal(pods))
	}, SpecTimeout(10*time.Minute))

	It("change to a second role without an outage", func(ctx context.Context) {
		r := working(ctx)
		epoch := b.epoch(ctx)
		d.exec(ctx, "postgres", "CREATE ROLE invoices_2 LOGIN PASSWORD 'second' IN ROLE "+role)
		d.secret(ctx, b, d.DSN("invoices_2", "second"))
		By("waiting until nobody uses the first role")
		Eventually(d.sessions).WithContext(ctx).WithArguments(role).WithTimeout(4 * time.Minute).Should(BeZero())
		d.exec(ctx, "postgres", "ALTER ROLE "+role+" NOLOGIN")
		b.crew(ctx)
		r.finish(ctx)
		again := b.submit(ctx, "invoices", 50)
		again.finish(ctx)
		Expect(b.epoch(ctx)).To(Equal(epoch), "nobody had to load")
	}, SpecTimeout(10*time.Minute))
})

var _ = Describe("A database that lets nobody in", Label("postgres"), func() {
	DescribeTable("is named with what to do, and the flow starts when it is mended", func(ctx context.Context, user, password string, want ...string) {
		d := newDatabase(ctx)
		b := newBed(ctx)
		b.beside(ctx)
		d.secret(ctx, b, d.DSN(user, password))
		b.invoices(ctx)
		b.shows(ctx, "workpullingflow/invoices", "QueueAvailable", "False StoreUnavailable")
		Eventually(b.condition).WithContext(ctx).WithArguments("workpullingflow/invoices", "Ready").Should(MatchRegexp("^False (StoreUnavailable|LoadFailed): "))
		message, err := b.condition(ctx, "workpullingflow/invoices", "Ready")
		Expect(err).NotTo(HaveOccurred())
		for _, text := range append(want, "Secret invoices-db", `key "dsn"`) {
			Expect(message).To(ContainSubstring(text))
		}
		Expect(message).NotTo(ContainSubstring(password))
		Eventually(b.get).WithContext(ctx).WithArguments("get", "events", "--field-selector=reason=StoreUnavailable", "-o", "jsonpath={.items[*].message}").
			Should(ContainSubstring(want[0]))

		d.secret(ctx, b, d.DSN(role, "first"))
		b.crew(ctx)
		b.tools(ctx)
		r := b.submit(ctx, "invoices", 20)
		r.finish(ctx)
	},
		Entry("for a wrong password", role, "wr0ng-passw0rd", "password authentication failed", SpecTimeout(8*time.Minute)),
		Entry("for a role that is not there", "nobody", "wr0ng-passw0rd", "password authentication failed", SpecTimeout(8*time.Minute)),
	)

	It("is named where the Secret is missing", func(ctx context.Context) {
		d := newDatabase(ctx)
		b := newBed(ctx)
		b.beside(ctx)
		b.invoices(ctx)
		b.shows(ctx, "workpullingflow/invoices", "QueueAvailable", `False ConnectionSecretMissing: Secret invoices-db does not exist or has no key "dsn"`)
		d.secret(ctx, b, d.DSN(role, "first"))
		b.crew(ctx)
	}, SpecTimeout(8*time.Minute))

	It("is named where it cannot be reached", func(ctx context.Context) {
		d := newDatabase(ctx)
		b := newBed(ctx)
		b.beside(ctx)
		Expect(d.Kill()).To(Succeed())
		d.secret(ctx, b, d.DSN(role, "first"))
		b.invoices(ctx)
		b.shows(ctx, "workpullingflow/invoices", "QueueAvailable", "False StoreUnavailable")
		Expect(b.condition(ctx, "workpullingflow/invoices", "QueueAvailable")).To(And(ContainSubstring("connection refused"), ContainSubstring(d.Host)))
		Expect(d.Run()).To(Succeed())
		b.crew(ctx)
	}, SpecTimeout(8*time.Minute))
})

// uids are those of the producer pods, by name, and the restarts of their containers.
func (b *bed) uids(ctx context.Context) []string {
	GinkgoHelper()
	text, err := b.get(ctx, "get", "pods", "-l", "workpulling.dev/role=producer", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.status.containerStatuses[*].restartCount}{"\n"}{end}`)
	Expect(err).NotTo(HaveOccurred())
	return slices.Sorted(strings.Lines(text))
}
