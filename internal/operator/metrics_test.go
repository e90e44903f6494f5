package operator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/workpulling/workpulling/internal/certs"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// reviewer is an API server that knows the tokens "scraper" and "stranger", and lets the first get /metrics.
func reviewer(t *testing.T) *rest.Config {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		if name := review.Spec.Token; name == "scraper" || name == "stranger" {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: name}}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	})
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		path := review.Spec.NonResourceAttributes
		review.Status.Allowed = review.Spec.User == "scraper" && path != nil && path.Verb == "get" && path.Path == "/metrics"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// The operator's metrics are for callers that the API server knows and lets get /metrics, over TLS alone. A client certificate is nothing there,
// and no other path or verb is served without the same.
func TestMetricsAreForWhoMayScrape(t *testing.T) {
	authority := certs.NewAuthority(fake.NewClientBuilder().WithScheme(clientscheme.Scheme).Build(), types.NamespacedName{Namespace: "system", Name: "ca"}, clock.RealClock{}, logr.Discard())
	if err := authority.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	address := transporttest.FreeAddress(t)
	config := reviewer(t)
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	var complaints atomic.Int64
	ctrl.SetLogger(funcr.New(func(string, string) { complaints.Add(1) }, funcr.Options{}))
	server, err := metricsserver.NewServer(metricsOptions(Options{Namespace: "system", MetricsAddress: address, MetricsHost: "release-metrics.system.svc"}, authority), config, web)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		web.CloseIdleConnections()
	})
	certificate, err := authority.Certificate(certs.Leaf{CommonName: "workpulling-operator", Usage: x509.ExtKeyUsageClientAuth})
	if err != nil {
		t.Fatal(err)
	}
	host := "release-metrics.system.svc"
	call := func(method, scheme, path, token string) string {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
			ServerName: host, RootCAs: authority.Pool(), MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*certificate},
		}}}
		request, _ := http.NewRequestWithContext(t.Context(), method, scheme+"://"+address+path, http.NoBody)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(request)
		if err != nil {
			return "no answer"
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return fmt.Sprint(response.StatusCode)
	}
	transporttest.Eventually(t, "metrics are served", func() bool { return call("GET", "https", "/metrics", "scraper") == "200" })
	for _, tc := range []struct{ method, scheme, path, token, want string }{
		{"GET", "https", "/metrics", "", "401"},
		{"GET", "https", "/metrics", "unknown", "500"}, // so controller-runtime answers a token that is none
		{"GET", "https", "/metrics", "stranger", "403"},
		{"POST", "https", "/metrics", "scraper", "403"},
		{"DELETE", "https", "/metrics", "scraper", "403"},
		{"GET", "https", "/", "", "404"},
		{"GET", "https", "/debug/pprof/", "scraper", "404"},
		{"GET", "http", "/metrics", "scraper", "400"},
	} {
		if got := call(tc.method, tc.scheme, tc.path, tc.token); got != tc.want {
			t.Errorf("%s %s://…%s as %q: %s, want %s", tc.method, tc.scheme, tc.path, tc.token, got, tc.want)
		}
	}
	before := complaints.Load()
	for n := range 20 {
		if got := call("GET", "https", "/metrics", fmt.Sprint("unknown ", n)); got != "500" {
			t.Errorf("an unknown token: %s", got)
		}
	}
	if before == 0 || complaints.Load() != before {
		t.Errorf("%d lines of the log before, and %d after 20 more tokens that are none", before, complaints.Load())
	}
	if host = "workpulling-operator-metrics.system.svc"; call("GET", "https", "/metrics", "scraper") != "no answer" {
		t.Error("the certificate is good for a Service of another installation")
	}
}
