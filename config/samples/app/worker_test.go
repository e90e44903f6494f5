package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func deliver(t *testing.T, w *worker, message, document string) (status int, retryAfter string) {
	t.Helper()
	request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(document))
	request.Header.Set("Ce-Id", "doc")
	request.Header.Set("Ce-Source", "/s")
	request.Header.Set(headerAttempt, "1")
	if message != "" {
		request.Header.Set(headerMessageID, message)
	}
	answer := httptest.NewRecorder()
	w.handle(answer, request)
	return answer.Code, answer.Header().Get("Retry-After")
}

// stores are one of effects, with its ledger, and one that does not answer.
func stores(t *testing.T) (l *ledger, store, closed *httptest.Server) {
	t.Helper()
	l, err := openLedger(filepath.Join(t.TempDir(), "effects"))
	if err != nil {
		t.Fatal(err)
	}
	store, closed = httptest.NewServer(routes(l)), httptest.NewServer(nil)
	t.Cleanup(store.Close)
	closed.Close()
	return l, store, closed
}

func TestWorkerAnswers(t *testing.T) {
	l, store, closed := stores(t)

	cases := map[string]struct {
		store, message, document string
		failPercent              int
		want                     int
		retryAfter               string
	}{
		"text has its effect":             {store: store.URL, message: "m1", document: "two words\n", want: http.StatusNoContent},
		"binary can never be processed":   {store: store.URL, message: "m2", document: "\xff\xfe", want: http.StatusUnprocessableEntity},
		"a failure is told":               {store: store.URL, message: "m3", document: "x", failPercent: 100, want: http.StatusInternalServerError},
		"without a store the job returns": {store: closed.URL, message: "m4", document: "x", want: http.StatusServiceUnavailable, retryAfter: "1"},
		"not a job":                       {store: store.URL, document: "x", want: http.StatusBadRequest},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := &worker{name: "w", failPercent: c.failPercent, store: newStoreClient(c.store)}
			status, retryAfter := deliver(t, w, c.message, c.document)
			if status != c.want || retryAfter != c.retryAfter {
				t.Errorf("answered %d with Retry-After %q, want %d and %q", status, retryAfter, c.want, c.retryAfter)
			}
		})
	}
	// The failed ones started and left no effect.
	if diff := cmp.Diff(Summary{Jobs: 3, Effects: 1, Started: 3, Finished: 1}, l.summary("/s")); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

func TestStoreRefusesWhatIsNoExecution(t *testing.T) {
	l, err := openLedger(filepath.Join(t.TempDir(), "effects"))
	if err != nil {
		t.Fatal(err)
	}
	for path, body := range map[string]string{
		"/v1/executions/start":  `{"id":"1"}`,
		"/v1/executions/finish": `{"id":"1","messageID":"m"}`,
	} {
		answer := httptest.NewRecorder()
		routes(l).ServeHTTP(answer, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
		if answer.Code != http.StatusBadRequest {
			t.Errorf("%s %s answered %d, want 400", path, body, answer.Code)
		}
	}
}

func TestAnalyse(t *testing.T) {
	got, err := analyse([]byte("one two\nthree"))
	want := Analysis{Bytes: 13, Lines: 2, Words: 3, SHA256: "2e2bf529d7cf77cec165d750c66d6d1617d14adf8e9f4e483864ed0b6c89a221"}
	if err != nil || got != want {
		t.Errorf("analyse = %+v, %v, want %+v", got, err, want)
	}
}
