package flow

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/certs"
	"github.com/workpulling/workpulling/internal/children"
	"github.com/workpulling/workpulling/internal/metrics"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/test/builders"
)

// certified is a reconciler that has what certificates need.
func certified(t *testing.T) (*Reconciler, client.Client) {
	t.Helper()
	c := fake.NewClientBuilder().WithScheme(clientscheme.Scheme).Build()
	authority := certs.NewAuthority(c, types.NamespacedName{Namespace: "system", Name: "ca"}, clock.RealClock{}, logr.Discard())
	if err := authority.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &Reconciler{
		Client: c, Recorder: events.NewFakeRecorder(10), Metrics: metrics.NewOperator(prometheus.NewRegistry(), authority),
		Issuer: &certs.Issuer{Authority: authority, Clock: clock.RealClock{}, Keeper: children.Keeper{Client: c, Live: c}},
	}, c
}

// files are what the producer of a flow mounts.
func files(t *testing.T, c client.Client, flow *v1alpha1.WorkPullingFlow) (certFile, keyFile, caFile string) {
	t.Helper()
	var secret corev1.Secret
	var bundle corev1.ConfigMap
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: flow.Namespace, Name: runtimeconfig.TLSSecretName}, &secret); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: flow.Namespace, Name: runtimeconfig.CAConfigMapName}, &bundle); err != nil {
		t.Fatal(err)
	}
	dir, entry := t.TempDir(), runtimeconfig.ProducerName(flow.Name)
	for name, content := range map[string][]byte{"tls.crt": secret.Data[entry+".crt"], "tls.key": secret.Data[entry+".key"], "ca.crt": []byte(bundle.Data["ca.crt"])} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "ca.crt")
}

// pulled greets a worker, so that it knows whom it has met.
type pulled struct {
	pb.UnimplementedWorkPullingServer
}

func (pulled) Pull(stream pb.WorkPulling_PullServer) error {
	<-stream.Context().Done()
	return nil
}

// A worker meets the producer of its flow. A producer of another flow, of a flow of that name in another namespace, or of another
// operator, which all have good certificates of their own, does not pass for it.
func TestWorkersVerifyTheProducerByTheFlowsName(t *testing.T) {
	r, c := certified(t)
	stranger, elsewhere := certified(t)
	ours := builders.MakeFlow("orders", "shop").Obj()
	if _, err := r.ensureCertificate(t.Context(), ours); err != nil {
		t.Fatal(err)
	}
	_, _, caFile := files(t, c, ours)
	for name, tc := range map[string]struct {
		r    *Reconciler
		c    client.Client
		flow *v1alpha1.WorkPullingFlow
		fine bool
	}{
		"its flow":                        {r, c, ours, true},
		"another flow of the namespace":   {r, c, builders.MakeFlow("invoices", "shop").Obj(), false},
		"a flow whose name begins so":     {r, c, builders.MakeFlow("orders-producer", "shop").Obj(), false},
		"that name in another namespace":  {r, c, builders.MakeFlow("orders", "bank").Obj(), false},
		"that flow with another operator": {stranger, elsewhere, ours, false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := tc.r.ensureCertificate(t.Context(), tc.flow); err != nil {
				t.Fatal(err)
			}
			certFile, keyFile, _ := files(t, tc.c, tc.flow)
			served, err := transport.NewCertificate(certFile, keyFile)
			if err != nil {
				t.Fatal(err)
			}
			server := transport.NewServer(transport.ServerTLS(served))
			pb.RegisterWorkPullingServer(server, pulled{})
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var serving sync.WaitGroup
			serving.Go(func() { _ = server.Serve(listener) })
			defer serving.Wait()
			defer server.Stop()
			peer := transport.Peer{
				Address: listener.Addr().String(), TLS: transport.ClientTLS(caFile, runtimeconfig.ProducerHost("orders", "shop")),
				TokenFile: transporttest.TokenFile(t, "worker"),
			}
			stream, err := peer.DialWorker(t.Context())
			if err == nil {
				stream.Close()
			}
			if (err == nil) != tc.fine {
				t.Errorf("a worker of shop/orders meets %s: %v", name, err)
			}
		})
	}
}

// No name in a certificate is good in two namespaces.
func TestNoHostIsSharedByTwoNamespaces(t *testing.T) {
	for _, host := range hosts(builders.MakeFlow("orders", "shop").Obj()) {
		for _, other := range hosts(builders.MakeFlow("orders", "bank").Obj()) {
			if host == other {
				t.Errorf("the producers of two namespaces both prove to be %s", host)
			}
		}
	}
}

// The annotation of a person replaces the certificate; a text that is no moment is told of, and harms nothing.
func TestAPersonAsksForAnotherCertificate(t *testing.T) {
	r, c := certified(t)
	flow := builders.MakeFlow("orders", "shop").Obj()
	ensure := func() *x509.Certificate {
		t.Helper()
		if _, err := r.ensureCertificate(t.Context(), flow); err != nil {
			t.Fatal(err)
		}
		certFile, _, _ := files(t, c, flow)
		found, err := certutil.CertsFromFile(certFile)
		if err != nil {
			t.Fatal(err)
		}
		return found[0]
	}
	first := ensure()
	if flow.Annotations == nil {
		flow.Annotations = map[string]string{}
	}
	flow.Annotations[v1alpha1.AnnotationRenewBefore] = "soon"
	if !ensure().Equal(first) {
		t.Error("a text that is no moment replaced a certificate")
	}
	if n := len(r.Recorder.(*events.FakeRecorder).Events); n != 1 {
		t.Errorf("%d Events about a text that is no moment, want 1", n)
	}
	<-time.After(1100 * time.Millisecond) // a certificate knows whole seconds only
	flow.Annotations[v1alpha1.AnnotationRenewBefore] = time.Now().UTC().Format(time.RFC3339)
	second := ensure()
	if second.Equal(first) || !ensure().Equal(second) {
		t.Error("the certificate was not replaced once")
	}
}

// Where cert-manager is not there, a new flow gets no producer and says why, once as an Event.
func TestAFlowWaitsForTheIssuer(t *testing.T) {
	r, c := certified(t)
	r.Issuer.Outside = &certs.Outside{
		Ref: certs.IssuerRef{Group: "cert-manager.io", Kind: "ClusterIssuer", Name: "corporate"},
		Client: interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "cert-manager.io", Kind: "CertificateRequest"}}
			},
		}),
	}
	flow := builders.MakeFlow("orders", "shop").Obj()
	var a applied
	for range 3 {
		var err error
		if a, err = r.apply(t.Context(), &observation{flow: flow}, plan{}); err != nil {
			t.Fatal(err)
		}
	}
	if a.obstacle.Reason != v1alpha1.ReasonCertificatePending || !strings.Contains(a.obstacle.Message, "cert-manager is not installed") || a.renewIn == 0 {
		t.Errorf("applied %+v", a)
	}
	if n := len(r.Recorder.(*events.FakeRecorder).Events); n != 1 {
		t.Errorf("%d Events, want 1", n)
	}
	var secret corev1.Secret
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: runtimeconfig.TLSSecretName}, &secret); err != nil {
		t.Fatal(err)
	}
	if len(secret.Data[runtimeconfig.ProducerName("orders")+runtimeconfig.TLSCertSuffix]) > 0 {
		t.Error("the operator's own authority stepped in")
	}
	// A producer that is there is looked after all the same: its document may be what a deletion waits for.
	document := configMap(flow, "{}")
	r.Issuer.Keeper.Client = interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if object.GetName() == document.Name {
				return errors.New("the document is written")
			}
			return c.Create(ctx, object, options...)
		},
	})
	for _, tc := range []struct {
		set  *appsv1.StatefulSet
		want bool
	}{{nil, false}, {&appsv1.StatefulSet{}, true}} {
		_, err := r.apply(t.Context(), &observation{flow: flow, set: tc.set}, plan{objects: []client.Object{document}})
		if (err != nil) != tc.want {
			t.Errorf("with a StatefulSet %t: %v", tc.set != nil, err)
		}
	}
}
