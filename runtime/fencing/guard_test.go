package fencing_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/workpulling/workpulling/runtime/fencing"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const audience = "workpulling.dev"

var (
	pods  = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	pools = schema.GroupVersionResource{Group: "workpulling.dev", Version: "v1alpha1", Resource: "workerpools"}

	leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
)

// api is an API server that reviews tokens of the form "<pod name>/<pod UID>/<ServiceAccount>", or the names in status.
type api struct {
	server  *httptest.Server
	reviews atomic.Int64
	access  atomic.Int64

	mu      sync.Mutex
	status  map[string]authenticationv1.TokenReviewStatus
	failing int // HTTP status of every answer, 0 for none
	forbid  map[string]bool
	slow    chan struct{} // reviews wait for it
}

func newAPI(t *testing.T) *api {
	t.Helper()
	a := &api{status: map[string]authenticationv1.TokenReviewStatus{}, forbid: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", a.review)
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/namespaces/shop/localsubjectaccessreviews", a.authorize)
	a.server = httptest.NewServer(mux)
	t.Cleanup(a.server.Close)
	return a
}

func (a *api) broken(w http.ResponseWriter) bool {
	a.mu.Lock()
	status, slow := a.failing, a.slow
	a.mu.Unlock()
	if slow != nil {
		<-slow
	}
	if status == 0 {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":"Broken"}`, status)
	return true
}

// review counts what is asked about others. A guard asks about its own token, too, which is empty here, to see whether it may ask.
func (a *api) review(w http.ResponseWriter, r *http.Request) {
	var review authenticationv1.TokenReview
	err := json.NewDecoder(r.Body).Decode(&review)
	if review.Spec.Token != "" {
		a.reviews.Add(1)
	}
	if a.broken(w) {
		return
	}
	if err != nil || len(review.Spec.Audiences) != 1 || review.Spec.Audiences[0] != audience {
		http.Error(w, "the review does not ask for our audience", http.StatusBadRequest)
		return
	}
	review.Status = a.statusOf(review.Spec.Token)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

func (a *api) statusOf(token string) authenticationv1.TokenReviewStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	if status, ok := a.status[token]; ok {
		return status
	}
	if token == "" {
		return authenticationv1.TokenReviewStatus{Error: "invalid bearer token"}
	}
	parts := strings.Split(token, "/")
	return authenticationv1.TokenReviewStatus{
		Authenticated: true, Audiences: []string{audience},
		User: authenticationv1.UserInfo{Username: "system:serviceaccount:shop:" + parts[2], Extra: map[string]authenticationv1.ExtraValue{
			"authentication.kubernetes.io/pod-name": {parts[0]}, "authentication.kubernetes.io/pod-uid": {parts[1]},
		}},
	}
}

func (a *api) authorize(w http.ResponseWriter, r *http.Request) {
	a.access.Add(1)
	if a.broken(w) {
		return
	}
	var review authorizationv1.LocalSubjectAccessReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	want := authorizationv1.ResourceAttributes{
		Namespace: "shop", Verb: review.Spec.ResourceAttributes.Verb, Group: "workpulling.dev", Version: "*",
		Resource: "workpullingflows", Subresource: "jobs", Name: "orders",
	}
	a.mu.Lock()
	review.Status.Allowed = *review.Spec.ResourceAttributes == want && !a.forbid[want.Verb]
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

func (a *api) fail(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failing = status
}

func pod(name, uid, pool string) *metav1.PartialObjectMetadata {
	yes := true
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "shop", UID: types.UID(uid),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "workpulling.dev/v1alpha1", Kind: "WorkerPool", Name: pool, UID: types.UID(pool + "-uid"), Controller: &yes}},
		},
	}
}

func pool(name string, flow string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "workpulling.dev/v1alpha1", "kind": "WorkerPool",
		"metadata": map[string]any{"name": name, "namespace": "shop", "uid": name + "-uid"},
		"spec":     map[string]any{"flows": []any{flow}},
	}}
}

// cluster is a Guard over the fake API server.
type cluster struct {
	*api
	guard    *fencing.Guard
	metadata *metadatafake.FakeMetadataClient
	clock    *clocktesting.FakePassiveClock
	gone     chan string
	over     chan string
	dynamic  *dynamicfake.FakeDynamicClient
	ctx      context.Context //nolint:containedctx // of the test
	allowed  []string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{api: newAPI(t), clock: clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0)), gone: make(chan string, 10), over: make(chan string, 10), ctx: t.Context()}
	clients, err := fencing.NewClients(&rest.Config{Host: c.server.URL, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}, "shop")
	if err != nil {
		t.Fatal(err)
	}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c.metadata = metadatafake.NewSimpleMetadataClient(scheme, pod("worker", "worker-uid", "pool"), pod("stranger", "stranger-uid", "foreign"))
	clients.Metadata = c.metadata
	c.dynamic = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{pools: "WorkerPoolList", leases: "LeaseList"}, pool("pool", "orders"), pool("foreign", "other"))
	clients.Dynamic = c.dynamic
	c.guard = fencing.New(fencing.Options{
		Namespace: "shop", Flow: "orders", Audience: audience, Clock: c.clock,
		AllowedServiceAccounts: func() []string { return c.allowed },
		OnPodGone:              func(uid string) { c.gone <- uid },
		OnIncarnationOver:      func(uid, boot, _ string) { c.over <- uid + "/" + boot },
	}, clients)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.guard.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		http.DefaultClient.CloseIdleConnections()
		c.server.CloseClientConnections()
	})
	return c
}

func (c *cluster) worker(t *testing.T, token string) *transport.Refusal {
	t.Helper()
	_, err := c.guard.AuthenticateWorker(t.Context(), token)
	if err == nil {
		return nil
	}
	refusal, ok := errors.AsType[*transport.Refusal](err)
	if !ok {
		t.Fatalf("error %v is no refusal", err)
	}
	return refusal
}

func TestWorkerOfThisFlowMayBind(t *testing.T) {
	c := newCluster(t)
	got, err := c.guard.AuthenticateWorker(t.Context(), "worker/worker-uid/app")
	if err != nil || got.PodUID != "worker-uid" || got.PodName != "worker" || got.Pool != "pool" {
		t.Errorf("%v, %v", got, err)
	}
}

// Each way to be refused has its own label (B-080…B-083, B-267).
func TestRefusedWorkers(t *testing.T) {
	c := newCluster(t)
	c.status["forged"] = authenticationv1.TokenReviewStatus{Error: "invalid bearer token"}
	c.status["expired"] = authenticationv1.TokenReviewStatus{Error: "service account token has expired"}
	c.status["audience"] = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: []string{"https://kubernetes.default.svc"}}
	c.status["deleted"] = authenticationv1.TokenReviewStatus{Error: "service account token has been invalidated"}
	c.status["unbound"] = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: []string{audience}, User: authenticationv1.UserInfo{Username: "system:serviceaccount:shop:app"}}
	c.status["person"] = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: []string{audience}, User: authenticationv1.UserInfo{Username: "alice"}}
	for token, want := range map[string]transport.Label{
		"forged":                    transport.LabelTokenInvalid,
		"expired":                   transport.LabelTokenExpired,
		"audience":                  transport.LabelTokenAudience,
		"deleted":                   transport.LabelPodDeleted,
		"unbound":                   transport.LabelTokenUnbound,
		"person":                    transport.LabelServiceAccount,
		"nobody/nobody-uid/app":     transport.LabelPodUnknown,
		"worker/old-uid/app":        transport.LabelPodUnknown,
		"stranger/stranger-uid/app": transport.LabelPodForeign,
	} {
		refusal := c.worker(t, token)
		if refusal == nil || refusal.Label != want || refusal.Code != protocol.RefusedIdentity {
			t.Errorf("%s: %v, want %s", token, refusal, want)
		}
	}
	c.allowed = []string{"other"}
	if refusal := c.worker(t, "worker/worker-uid/app"); refusal == nil || refusal.Label != transport.LabelServiceAccount {
		t.Errorf("a ServiceAccount that the flow does not allow: %v", refusal)
	}
}

// "Cannot decide" is never "refused" (B-091), and is forgotten at once.
func TestOutageOfTheAPIServerMeansLater(t *testing.T) {
	c := newCluster(t)
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		c.fail(status)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		_, err := c.guard.AuthenticateWorker(ctx, "worker/worker-uid/app")
		cancel()
		if refusal, ok := errors.AsType[*transport.Refusal](err); !ok || refusal.Code != protocol.RefusedUnavailable || refusal.RetryAfter <= 0 {
			t.Errorf("API answers %d: %v", status, err)
		}
	}
	c.fail(0)
	if refusal := c.worker(t, "worker/worker-uid/app"); refusal != nil {
		t.Errorf("after the outage: %v", refusal)
	}
}

func TestReviewsAreRememberedForSecondsAndCoalesced(t *testing.T) {
	c := newCluster(t)
	c.slow = make(chan struct{})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if refusal := c.worker(t, "worker/worker-uid/app"); refusal != nil {
				t.Errorf("refused: %v", refusal)
			}
		})
	}
	transporttest.Eventually(t, "a review has begun", func() bool { return c.reviews.Load() > 0 })
	close(c.slow)
	all.Wait()
	_ = c.worker(t, "worker/worker-uid/app")
	if n := c.reviews.Load(); n > 2 { // a latecomer may have missed the flight, never twenty
		t.Errorf("%d reviews for one token", n)
	}
	before := c.reviews.Load()
	c.clock.SetTime(c.clock.Now().Add(time.Minute))
	_ = c.worker(t, "worker/worker-uid/app")
	if n := c.reviews.Load(); n != before+1 {
		t.Errorf("%d reviews after a minute, want one more than %d", n, before)
	}
}

// A token that is openly for others costs the API server nothing.
func TestTokenForOthersIsRefusedWithoutAReview(t *testing.T) {
	c := newCluster(t)
	if refusal := c.worker(t, "e30.eyJhdWQiOlsib3RoZXIiXX0.c2ln"); refusal == nil || refusal.Label != transport.LabelTokenAudience {
		t.Errorf("%v", refusal)
	}
	if n := c.reviews.Load(); n != 0 {
		t.Errorf("%d reviews", n)
	}
}

// A pod that the cache does not hold yet is looked up once (D.1), and only a real deletion is evidence of an end.
func TestPodsComeAndGo(t *testing.T) {
	c := newCluster(t)
	live := c.metadata.Resource(pods).Namespace("shop").(metadatafake.MetadataClient)
	if _, err := live.CreateFake(pod("fresh", "fresh-uid", "pool"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if refusal := c.worker(t, "fresh/fresh-uid/app"); refusal != nil {
		t.Errorf("a fresh pod: %v", refusal)
	}
	if refusal := c.worker(t, "worker/worker-uid/app"); refusal != nil {
		t.Fatal(refusal)
	}
	select {
	case uid := <-c.gone:
		t.Errorf("%s reported gone", uid)
	default:
	}
	// The fake drops a watch event that comes before the watch: delete until it was seen.
	there := true
	transporttest.Eventually(t, "the deletion is noticed", func() bool {
		if there {
			_ = live.Delete(t.Context(), "fresh", metav1.DeleteOptions{})
		} else if len(c.gone) == 0 {
			_, _ = live.CreateFake(pod("fresh", "fresh-uid", "pool"), metav1.CreateOptions{})
		}
		there = !there
		return len(c.gone) > 0 && !there
	})
	if uid := <-c.gone; uid != "fresh-uid" {
		t.Errorf("%s reported gone", uid)
	}
	if refusal := c.worker(t, "fresh/fresh-uid/app"); refusal == nil || refusal.Label != transport.LabelPodUnknown {
		t.Errorf("a deleted pod: %v", refusal)
	}
}

func TestSubmittersNeedThePermission(t *testing.T) {
	c := newCluster(t)
	c.forbid["delete"] = true
	submitter, err := c.guard.AuthenticateSubmitter(t.Context(), "any/any/app", "create")
	if err != nil || submitter.Subject != "system:serviceaccount:shop:app" {
		t.Errorf("%v, %v", submitter, err)
	}
	for range 5 {
		_, err = c.guard.AuthenticateSubmitter(t.Context(), "any/any/app", "delete")
		if refusal, ok := errors.AsType[*transport.Refusal](err); !ok || refusal.Label != transport.LabelForbidden {
			t.Errorf("forbidden verb: %v", err)
		}
		if _, err := c.guard.AuthenticateSubmitter(t.Context(), "any/any/app", "create"); err != nil {
			t.Error(err)
		}
	}
	if tokens, access := c.reviews.Load(), c.access.Load(); tokens != 1 || access != 2 {
		t.Errorf("%d token reviews and %d access reviews, want 1 and 2", tokens, access)
	}
	c.fail(http.StatusServiceUnavailable)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err = c.guard.AuthenticateSubmitter(ctx, "any/any/app", "list")
	if refusal, ok := errors.AsType[*transport.Refusal](err); !ok || refusal.Code != protocol.RefusedUnavailable {
		t.Errorf("outage: %v", err)
	}
}
