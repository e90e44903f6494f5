//go:build integration

package storm

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/workpulling/workpulling/test/integration/environment"
)

// policy has the API server write down who asked for what, once for each request and twice for each watch.
const policy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}]}`

// audit is the log of an API server.
type audit struct{ policy, log string }

func newAudit(t *testing.T) audit {
	t.Helper()
	dir := t.TempDir()
	a := audit{policy: filepath.Join(dir, "policy.json"), log: filepath.Join(dir, "audit.log")}
	must(t, os.WriteFile(a.policy, []byte(policy), 0o600))
	return a
}

func (a audit) options() environment.Options {
	return environment.Options{APIServerArgs: []string{"--audit-policy-file=" + a.policy, "--audit-log-path=" + a.log, "--audit-log-mode=blocking"}}
}

// request is one that the API server got.
type request struct {
	ID        string `json:"auditID"`
	Verb      string `json:"verb"`
	UserAgent string `json:"userAgent"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	Object struct {
		Resource string `json:"resource"`
	} `json:"objectRef"`
	URI    string `json:"requestURI"`
	Status struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	At time.Time `json:"requestReceivedTimestamp"`
}

// kind is what the request is one of.
func (r request) kind() string {
	what := r.Object.Resource
	if what == "" {
		what = r.URI
	}
	return strings.Join([]string{r.UserAgent, r.Verb, what}, " ")
}

func (r request) writes() bool { return !slices.Contains([]string{"get", "list", "watch"}, r.Verb) }

// requests are those of a user between two moments, in their order.
func (a audit) requests(t *testing.T, user string, from, to time.Time) []request {
	t.Helper()
	file, err := os.Open(a.log)
	must(t, err)
	defer file.Close()
	seen := map[string]bool{}
	var list []request
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		must(t, json.Unmarshal(lines.Bytes(), &r))
		if r.User.Username == user && !seen[r.ID] && !r.At.Before(from) && r.At.Before(to) {
			seen[r.ID] = true
			list = append(list, r)
		}
	}
	must(t, lines.Err())
	slices.SortFunc(list, func(a, b request) int { return a.At.Compare(b.At) })
	return list
}

// busiest is the largest number of requests within any span of this length.
func busiest(list []request, span time.Duration) int {
	most, first := 0, 0
	for i := range list {
		for list[i].At.Sub(list[first].At) >= span {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// only are those that a function chooses.
func only(list []request, which func(request) bool) []request {
	return slices.DeleteFunc(slices.Clone(list), func(r request) bool { return !which(r) })
}

// counts are requests by kind.
func counts(list []request) map[string]int {
	kinds := map[string]int{}
	for _, r := range list {
		kinds[r.kind()]++
	}
	return kinds
}
