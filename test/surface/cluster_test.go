package surface

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	metadatafake "k8s.io/client-go/metadata/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/fencing"
	"github.com/workpulling/workpulling/runtime/fencing/tokentest"
	"github.com/workpulling/workpulling/runtime/transport"
)

const (
	namespace = "shop"
	flowName  = "orders"
	poolName  = "packers"
	issuer    = "https://kubernetes.default.svc"
)

// cluster is what an API server knows: who signs tokens, who may do what, and which pods, pools and Leases there are.
type cluster struct {
	key  tokentest.Key
	jwks []byte
	at   time.Time

	mu     sync.Mutex
	issued map[string]authenticationv1.TokenReviewStatus // what a review says of each token that was made
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{key: tokentest.ECDSA(t, "first"), at: time.Now(), issued: map[string]authenticationv1.TokenReviewStatus{}}
	c.jwks = tokentest.JWKS(t, c.key)
	return c
}

// token is a projected token of a pod of the same name as its account.
func (c *cluster) token(t *testing.T, in, account string, audience ...string) string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	token := c.key.Sign(t, tokentest.Bound(issuer, in, account, account, string(uidOf(account)), c.at, time.Hour, audience...))
	c.issued[token] = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: audience, User: authenticationv1.UserInfo{
		Username: "system:serviceaccount:" + in + ":" + account,
		Extra: map[string]authenticationv1.ExtraValue{
			"authentication.kubernetes.io/pod-name": {account}, "authentication.kubernetes.io/pod-uid": {string(uidOf(account))},
		},
	}}
	return token
}

// FetchKeys implements fencing.KeySource.
func (c *cluster) FetchKeys(context.Context) ([]byte, time.Time, error) { return c.jwks, c.at, nil }

// ReviewToken implements fencing.TokenReviewer, with the texts of Kubernetes 1.37.
func (c *cluster) ReviewToken(_ context.Context, review *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	status, known := c.issued[review.Spec.Token]
	switch {
	case !known:
		review.Status = authenticationv1.TokenReviewStatus{Error: "invalid bearer token"}
	case !slices.ContainsFunc(review.Spec.Audiences, func(a string) bool { return slices.Contains(status.Audiences, a) }):
		review.Status = authenticationv1.TokenReviewStatus{Error: "[invalid bearer token, token audiences is invalid for the target audiences]"}
	default:
		review.Status = status
	}
	return review, nil
}

// client is that of the operator.
func (c *cluster) client(t *testing.T) client.Client {
	t.Helper()
	producer := &corev1.Pod{ObjectMeta: podMeta("member", "StatefulSet", runtimeconfig.ProducerName(flowName)).ObjectMeta}
	producer.Labels = map[string]string{v1alpha1.LabelRole: v1alpha1.RoleProducer, v1alpha1.LabelFlow: flowName}
	of := &corev1.Pod{ObjectMeta: podMeta("worker", v1alpha1.KindWorkerPool, poolName).ObjectMeta}
	other := &corev1.Pod{ObjectMeta: podMeta("stranger", "", "").ObjectMeta}
	return fake.NewClientBuilder().WithScheme(clientscheme.Scheme).WithObjects(producer, of, other).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			_, err := c.ReviewToken(ctx, object.(*authenticationv1.TokenReview))
			return err
		},
	}).Build()
}

// verbs are those that a role in the namespace gives on workpullingflows/jobs.
var verbs = map[string][]string{
	"system:serviceaccount:shop:submitter": {"create", "get"},
	"system:serviceaccount:shop:keeper":    {"create", "get", "list", "update", "delete", "read"},
}

// ReviewAccess implements fencing.AccessReviewer.
func (c *cluster) ReviewAccess(
	_ context.Context, review *authorizationv1.LocalSubjectAccessReview,
) (*authorizationv1.LocalSubjectAccessReview, error) {
	asked := review.Spec.ResourceAttributes
	review.Status.Allowed = asked.Name == flowName && asked.Namespace == namespace && slices.Contains(verbs[review.Spec.User], asked.Verb)
	return review, nil
}

func podMeta(name, kind, owner string) *metav1.PartialObjectMetadata {
	yes := true
	pod := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: uidOf(name)},
	}
	if owner != "" {
		group := map[string]string{v1alpha1.KindWorkerPool: v1alpha1.GroupVersion.String(), "StatefulSet": "apps/v1"}[kind]
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: group, Kind: kind, Name: owner, UID: uidOf(owner), Controller: &yes}}
	}
	return pod
}

func object(apiVersion, kind, name string, fields map[string]any) *unstructured.Unstructured {
	fields["apiVersion"], fields["kind"] = apiVersion, kind
	fields["metadata"] = map[string]any{"name": name, "namespace": namespace, "uid": string(uidOf(name))}
	return &unstructured.Unstructured{Object: fields}
}

// guard is the producer's own, over the cluster. trusted is the switch of the intake.
func (c *cluster) guard(t *testing.T, trusted func() bool) *fencing.Guard {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	leases := schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	pod := object("v1", "Pod", "web", map[string]any{
		"spec": map[string]any{"serviceAccountName": "web"}, "status": map[string]any{"phase": "Running", "podIP": addressOfWeb},
	})
	clients := fencing.Clients{
		WorkerTokens: c, SubmitterTokens: c, Access: c, Keys: c,
		OwnToken: func() (string, error) { return c.token(t, namespace, "producer", issuer), nil },
		Metadata: metadatafake.NewSimpleMetadataClient(scheme,
			podMeta("worker", v1alpha1.KindWorkerPool, poolName), podMeta("member", "StatefulSet", runtimeconfig.ProducerName(flowName)), podMeta("stranger", "", "")),
		Dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
			v1alpha1.GroupVersion.WithResource("workerpools"): "WorkerPoolList", leases: "LeaseList", pods: "PodList",
		}, object(v1alpha1.GroupVersion.String(), v1alpha1.KindWorkerPool, poolName, map[string]any{"spec": map[string]any{"flows": []any{flowName}}}), pod),
	}
	guard := fencing.New(fencing.Options{
		Namespace: namespace, Flow: flowName, StatefulSet: runtimeconfig.ProducerName(flowName), Audience: runtimeconfig.TokenAudience,
		TrustNamespace: trusted, Log: logr.Discard(),
	}, clients)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = guard.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return guard
}

// The loopback of the test stands for the network of a cluster: who calls from 127.0.0.2 is the pod web.
const (
	addressOfWeb = "10.0.0.2"
	localWeb     = "127.0.0.2"
	localOther   = "127.0.0.3"
)

// network translates the addresses of the test into those of the cluster.
type network struct{ *fencing.Neighbours }

// Admit implements intake.Neighbours.
func (n network) Admit(ctx context.Context, address netip.Addr) (transport.Submitter, error) {
	return n.Neighbours.Admit(ctx, netip.MustParseAddr(strings.Replace(address.String(), "127.", "10.", 1)))
}

func uidOf(name string) types.UID { return types.UID(name + "-uid") }
