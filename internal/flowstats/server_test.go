package flowstats

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
)

func producerPod(flow string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "media", Name: flow + "-producer-0", UID: "uid-1",
		Labels:          map[string]string{v1alpha1.LabelRole: v1alpha1.RoleProducer, v1alpha1.LabelFlow: flow},
		OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: flow + "-producer", Controller: ptr.To(true)}},
	}}
}

// reviewing is an API server that knows one token.
func reviewing(t *testing.T, answer authv1.TokenReviewStatus, objects ...client.Object) client.Client {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(clientscheme.Scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
			review, ok := obj.(*authv1.TokenReview)
			if !ok || review.Spec.Token != "good" {
				return nil
			}
			review.Status = answer
			return nil
		},
	}).Build()
}

func reviewed(pod, uid string) authv1.TokenReviewStatus {
	return authv1.TokenReviewStatus{
		Authenticated: true, Audiences: []string{runtimeconfig.TokenAudience},
		User: authv1.UserInfo{Username: "system:serviceaccount:media:thumbnails-producer", Extra: map[string]authv1.ExtraValue{
			extraPodName: {pod}, extraPodUID: {uid},
		}},
	}
}

func TestReport(t *testing.T) {
	worker := producerPod("thumbnails")
	worker.Labels[v1alpha1.LabelRole] = v1alpha1.RoleWorker
	noAudience := reviewed("thumbnails-producer-0", "uid-1")
	noAudience.Audiences = nil
	unbound, user, twice := reviewed("thumbnails-producer-0", "uid-1"), reviewed("thumbnails-producer-0", "uid-1"), reviewed("thumbnails-producer-0", "uid-1")
	unbound.User.Extra, user.User.Username = nil, "alice"
	twice.User.Extra[extraPodName] = authv1.ExtraValue{"thumbnails-producer-0", "another"}
	elsewhere := reviewed("thumbnails-producer-0", "uid-1")
	elsewhere.User.Username = "system:serviceaccount:another:thumbnails-producer"
	cases := map[string]struct {
		token  string
		answer authv1.TokenReviewStatus
		pod    *corev1.Pod
		flow   string
		want   codes.Code
	}{
		"accepted":            {"Bearer good", reviewed("thumbnails-producer-0", "uid-1"), producerPod("thumbnails"), "thumbnails", codes.OK},
		"no token":            {"", authv1.TokenReviewStatus{}, producerPod("thumbnails"), "thumbnails", codes.Unauthenticated},
		"bad token":           {"Bearer bad", authv1.TokenReviewStatus{}, producerPod("thumbnails"), "thumbnails", codes.Unauthenticated},
		"another audience":    {"Bearer good", noAudience, producerPod("thumbnails"), "thumbnails", codes.Unauthenticated},
		"not bound to a pod":  {"Bearer good", unbound, producerPod("thumbnails"), "thumbnails", codes.Unauthenticated},
		"a person's":          {"Bearer good", user, producerPod("thumbnails"), "thumbnails", codes.PermissionDenied},
		"of two pods":         {"Bearer good", twice, producerPod("thumbnails"), "thumbnails", codes.Unauthenticated},
		"another namespace's": {"Bearer good", elsewhere, producerPod("thumbnails"), "thumbnails", codes.Unauthenticated},
		"with another scheme": {"Basic good", reviewed("thumbnails-producer-0", "uid-1"), producerPod("thumbnails"), "thumbnails", codes.Unauthenticated},
		"an older pod":        {"Bearer good", reviewed("thumbnails-producer-0", "uid-0"), producerPod("thumbnails"), "thumbnails", codes.Unauthenticated},
		"a worker":            {"Bearer good", reviewed("thumbnails-producer-0", "uid-1"), worker, "thumbnails", codes.PermissionDenied},
		"for another flow":    {"Bearer good", reviewed("thumbnails-producer-0", "uid-1"), producerPod("thumbnails"), "invoices", codes.PermissionDenied},
		"a pod of nobody's":   {"Bearer good", reviewed("thumbnails-producer-0", "uid-1"), orphan(producerPod("thumbnails")), "thumbnails", codes.PermissionDenied},
	}
	certPEM, keyPEM, err := certutil.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	roots, err := certutil.NewPoolFromBytes(certPEM)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			registry := NewRegistry(clock.RealClock{}, time.Second)
			server := &Server{
				TLS: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13}, Registry: registry, Log: logr.Discard(),
				Identify: reviewedIdentity(reviewing(t, tc.answer, tc.pod)),
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				if err := server.Serve(t.Context(), listener); err != nil {
					t.Error(err)
				}
			}()
			conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
				RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS13,
			})))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx := t.Context()
			if tc.token != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", tc.token)
			}
			stream, err := protocolv1.NewFlowStatsCollectorClient(conn).Report(ctx)
			if err != nil {
				t.Fatal(err)
			}
			// A refused stream may end before the report is sent; Recv tells why.
			_ = stream.Send(&protocolv1.FlowStats{Namespace: "media", Flow: tc.flow, PodUid: "uid-1", BacklogJobs: 7})
			_, err = stream.Recv()
			if got := status.Code(err); got != tc.want {
				t.Fatalf("code %v (%v), want %v", got, err, tc.want)
			}
			snapshot, found := registry.Published(types.NamespacedName{Namespace: "media", Name: "thumbnails"})
			if accepted := found && snapshot.Stats != nil && snapshot.Stats.BacklogJobs == 7; accepted != (tc.want == codes.OK) {
				t.Errorf("accepted: %v, snapshot %+v", accepted, snapshot)
			}
		})
	}
}

func reviewedIdentity(c client.Client) func(context.Context) (Producer, error) {
	return TokenIdentity(c, ByReview(c))
}

func orphan(pod *corev1.Pod) *corev1.Pod {
	pod.OwnerReferences = nil
	return pod
}
