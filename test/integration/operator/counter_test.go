//go:build integration

package operator

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// counter counts the operator's writes, by the namespace they go to.
type counter struct {
	mu     sync.Mutex
	writes []string
}

func newCounter() *counter { return &counter{} }

func (c *counter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		stores := r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/leases/") && !strings.HasSuffix(r.URL.Path, "reviews") &&
			!strings.Contains(r.URL.Path, "/events") && r.URL.Query().Get("dryRun") == ""
		if stores {
			c.mu.Lock()
			fmt.Fprintln(GinkgoWriter, r.Method, r.URL.Path)
			c.writes = append(c.writes, r.Method+" "+r.URL.Path)
			c.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

// in returns the writes to a namespace.
func (c *counter) in(namespace string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.writes), func(w string) bool { return !strings.Contains(w, "/"+namespace+"/") })
}

// atRest waits until the operator has written nothing to a namespace for a second, and returns what it wrote before.
func atRest(namespace string) []string {
	GinkgoHelper()
	var before []string
	Eventually(func() bool {
		now := writes.in(namespace)
		same := before != nil && len(now) == len(before)
		before = now
		return same
	}).WithPolling(time.Second).Should(BeTrue())
	return before
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
