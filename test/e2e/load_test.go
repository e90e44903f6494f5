//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/workpulling/workpulling/test/harness"
)

// load submits documents at a steady pace for as long as it is let, from this machine and without the API server: what answers is the
// flow, or nobody. It keeps its own ledger of what was accepted.
type load struct {
	bed      *bed
	url      string
	producer string       // address of the pod of the first producer
	token    atomic.Value // string
	source   string
	client   *http.Client

	stopped chan struct{}
	pending sync.WaitGroup

	mu       sync.Mutex
	accepted []harness.Document
	answers  map[string]int
}

// near lets the bed read effects and metrics from pods without the API server, and skips where pods are not near.
func (b *bed) near(ctx context.Context) {
	GinkgoHelper()
	if os.Getenv("CLUSTER_NAME") == "" {
		Skip("this machine reaches pods in a local cluster only")
	}
	address, err := b.get(ctx, "get", "pod", "effects-0", "-o", "jsonpath={.status.podIP}")
	Expect(err).NotTo(HaveOccurred())
	b.effects.Address = net.JoinHostPort(address, "8080")
}

// load begins to submit a document every so often.
func (b *bed) load(ctx context.Context, flow string, every time.Duration) *load {
	GinkgoHelper()
	words, err := b.get(ctx, "get", "service", flow+"-intake", "-o", "jsonpath={.spec.clusterIP}")
	Expect(err).NotTo(HaveOccurred())
	producer, err := b.get(ctx, "get", "pod", flow+"-producer-0", "-o", "jsonpath={.status.podIP}")
	Expect(err).NotTo(HaveOccurred())
	bundle, err := b.get(ctx, "get", "configmap", "workpulling-ca", "-o", `jsonpath={.data.ca\.crt}`)
	Expect(err).NotTo(HaveOccurred())
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(bundle))
	l := &load{
		bed: b, url: "https://" + flow + "-intake." + b.namespace + ".svc/v1/flows/" + flow + "/jobs", producer: producer,
		source:  "/e2e/" + strconv.FormatInt(time.Now().UnixNano(), 36),
		stopped: make(chan struct{}), answers: map[string]int{},
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
			MaxIdleConnsPerHost: 4, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13},
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{Timeout: 3 * time.Second}).DialContext(ctx, network, net.JoinHostPort(words, "443"))
			},
		}},
	}
	l.renew(ctx)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.pending.Go(func() { l.run(ctx, every) })
	DeferCleanup(func() {
		cancel()
		l.pending.Wait()
	})
	return l
}

func (l *load) run(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-l.stopped:
			return
		case <-ticker.C:
		}
		document := harness.Document{ID: fmt.Sprintf("load/%d.txt", n), Content: fmt.Appendf(nil, "document number %d of %s\n", n, l.source)}
		l.pending.Go(func() { l.persist(ctx, document) })
	}
}

// persist submits one document until it is accepted.
func (l *load) persist(ctx context.Context, document harness.Document) {
	for ctx.Err() == nil {
		answer := l.submit(ctx, document)
		l.mu.Lock()
		l.answers[answer]++
		good := answer == "200" || answer == "201"
		if good {
			l.accepted = append(l.accepted, document)
		}
		l.mu.Unlock()
		if good {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (l *load) submit(ctx context.Context, document harness.Document) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, bytes.NewReader(document.Content))
	if err != nil {
		return err.Error()
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + l.token.Load().(string), "Content-Type": "text/plain",
		"ce-specversion": "1.0", "ce-id": document.ID, "ce-source": l.source, "ce-type": "dev.workpulling.e2e",
	} {
		request.Header.Set(name, value)
	}
	answer, err := l.client.Do(request)
	if err != nil {
		return "no answer"
	}
	_ = answer.Body.Close()
	return strconv.Itoa(answer.StatusCode)
}

// done is how many documents have their effect so far.
func (l *load) done(ctx context.Context) (int, error) {
	summary, err := l.bed.effects.Summary(ctx, l.source)
	return summary.Effects, err
}

// progresses waits until n more documents than now have an effect.
func (l *load) progresses(ctx context.Context, n int, within time.Duration) {
	GinkgoHelper()
	before, err := l.done(ctx)
	Expect(err).NotTo(HaveOccurred())
	Eventually(l.done).WithContext(ctx).WithTimeout(within).Should(BeNumerically(">=", before+n))
}

// stop ends the load, waits until everything that was begun is accepted and done, and returns the verdict.
func (l *load) stop(ctx context.Context) harness.Verdict {
	GinkgoHelper()
	close(l.stopped)
	accepted := make(chan struct{})
	go func() {
		l.pending.Wait()
		close(accepted)
	}()
	Eventually(ctx, accepted).WithTimeout(2*time.Minute).Should(BeClosed(), "every document is accepted in the end")
	verdict := (&run{bed: l.bed, documents: l.accepted, submitter: &harness.Submitter{Source: l.source}}).finished(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	AddReportEntry("jobs", fmt.Sprintf("accepted %d, all of them done; run again %d, finished again %d; answers %v",
		verdict.Submitted, verdict.Redelivered, verdict.Duplicates, l.answers))
	return verdict
}
