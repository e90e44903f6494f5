package workercontrol

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/workpulling/workpulling/internal/certs"
	"github.com/workpulling/workpulling/internal/children"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/sidecar/control"
)

// world is an operator and what it has issued, in files as pods mount them.
type world struct {
	t         *testing.T
	c         client.Client
	authority *certs.Authority
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, c: fake.NewClientBuilder().WithScheme(clientscheme.Scheme).Build()}
	w.authority = certs.NewAuthority(w.c, types.NamespacedName{Namespace: "system", Name: "ca"}, clock.RealClock{}, logr.Discard())
	if err := w.authority.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) issuer() *certs.Issuer {
	return &certs.Issuer{Authority: w.authority, Clock: clock.RealClock{}, Keeper: children.Keeper{Client: w.c, Live: w.c}}
}

// mount issues a certificate as the operator does, and returns the files of the pod.
func (w *world) mount(namespace, entry, host string) (certFile, keyFile, caFile string) {
	w.t.Helper()
	if _, err := w.issuer().Ensure(w.t.Context(), certs.Serving{Namespace: namespace, Entry: entry, Hosts: []string{host}}); err != nil {
		w.t.Fatal(err)
	}
	var secret corev1.Secret
	if err := w.c.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: runtimeconfig.TLSSecretName}, &secret); err != nil {
		w.t.Fatal(err)
	}
	var bundle corev1.ConfigMap
	if err := w.c.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: runtimeconfig.CAConfigMapName}, &bundle); err != nil {
		w.t.Fatal(err)
	}
	dir := w.t.TempDir()
	write := func(name string, content []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			w.t.Fatal(err)
		}
		return file
	}
	write(runtimeconfig.OperatorCAKey, []byte(bundle.Data[runtimeconfig.OperatorCAKey]))
	return write("tls.crt", secret.Data[entry+".crt"]), write("tls.key", secret.Data[entry+".key"]), write("ca.crt", []byte(bundle.Data["ca.crt"]))
}

// sidecar serves as a worker's sidecar does, with the certificate of a server that trusts by caFile, and returns its port.
func (w *world) sidecar(certFile, keyFile, caFile string) int {
	w.t.Helper()
	certificate, err := transport.NewCertificate(certFile, keyFile)
	if err != nil {
		w.t.Fatal(err)
	}
	server := transport.NewServer(transport.MutualServerTLS(certificate, caFile, runtimeconfig.OperatorCommonName))
	protocolv1.RegisterWorkerControlServer(server, control.NewServer(idle{}, protocol.Incarnation{PodUID: "uid-1"}, func() string { return "" }))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	w.t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	address, _ := listener.Addr().(*net.TCPAddr)
	return address.Port
}

type idle struct{}

func (idle) Status() delivery.ConsumerStatus { return delivery.ConsumerStatus{Idle: true} }
func (idle) StartDrain()                     {}
func (idle) Uncordon()                       {}
func (idle) Now() delivery.Now               { return time.Minute }
func (idle) CordonIfIdle(context.Context) (bool, delivery.ConsumerStatus) {
	return true, delivery.ConsumerStatus{}
}

// The operator believes a worker of the pool it means, and no other server with a certificate of its own authority.
func TestTheOperatorVerifiesThePool(t *testing.T) {
	w := newWorld(t)
	host := runtimeconfig.WorkerHost("resize", "media")
	stranger := newWorld(t)
	for name, c := range map[string]struct {
		of               *world
		namespace, entry string
		host             string
		fine             bool
	}{
		"its pool":                           {w, "media", runtimeconfig.WorkerName("resize"), host, true},
		"another pool":                       {w, "media", runtimeconfig.WorkerName("crop"), runtimeconfig.WorkerHost("crop", "media"), false},
		"a pool of that name elsewhere":      {w, "shop", runtimeconfig.WorkerName("resize"), runtimeconfig.WorkerHost("resize", "shop"), false},
		"a flow of that name":                {w, "media", runtimeconfig.ProducerName("resize"), runtimeconfig.ProducerHost("resize", "media"), false},
		"the pool of another operator's":     {stranger, "media", runtimeconfig.WorkerName("resize"), host, false},
		"a server with the operator's name ": {w, "media", "x", runtimeconfig.OperatorCommonName, false},
	} {
		t.Run(name, func(t *testing.T) {
			certFile, keyFile, _ := c.of.mount(c.namespace, c.entry, c.host)
			_, _, caFile := w.mount("media", "bundle", "bundle")
			_, err := New(w.authority, w.issuer().Roots).WithPort(w.sidecar(certFile, keyFile, caFile)).Status(t.Context(), Target{PodUID: "uid-1", PodIP: "127.0.0.1", Host: host})
			if (err == nil) != c.fine {
				t.Errorf("the operator meets %s: %v", name, err)
			}
		})
	}
}

// A worker's sidecar answers its operator, and nobody else who has a certificate of the authority, a token, or neither.
func TestASidecarAnswersTheOperatorAlone(t *testing.T) {
	w, stranger := newWorld(t), newWorld(t)
	host := runtimeconfig.WorkerHost("resize", "media")
	certFile, keyFile, caFile := w.mount("media", runtimeconfig.WorkerName("resize"), host)
	port := w.sidecar(certFile, keyFile, caFile)
	operator := func(of *world, name string, usage x509.ExtKeyUsage) *tls.Certificate {
		made, err := of.authority.Certificate(certs.Leaf{CommonName: name, Usage: usage})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	pair := func(namespace, entry, host string) *tls.Certificate {
		certFile, keyFile, _ := w.mount(namespace, entry, host)
		loaded, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			t.Fatal(err)
		}
		return &loaded
	}
	for name, c := range map[string]struct {
		shows *tls.Certificate
		token string
		fine  bool
	}{
		"the operator":                          {operator(w, runtimeconfig.OperatorCommonName, x509.ExtKeyUsageClientAuth), "", true},
		"nobody":                                {nil, "", false},
		"a token":                               {nil, runtimeconfig.OperatorCommonName, false},
		"another client of the authority":       {operator(w, "somebody", x509.ExtKeyUsageClientAuth), "", false},
		"another operator":                      {operator(stranger, runtimeconfig.OperatorCommonName, x509.ExtKeyUsageClientAuth), "", false},
		"itself":                                {pair("media", runtimeconfig.WorkerName("resize"), host), "", false},
		"the flow's producer":                   {pair("media", runtimeconfig.ProducerName("a"), runtimeconfig.ProducerHost("a", "media")), "", false},
		"a server that has the operator's name": {pair("media", runtimeconfig.OperatorCommonName, runtimeconfig.OperatorCommonName), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			config := transport.ClientTLS(caFile, host)
			if c.shows != nil {
				config.Certificates = []tls.Certificate{*c.shows}
			}
			peer := transport.Peer{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), TLS: config}
			if c.token != "" {
				peer.TokenFile = transporttest.TokenFile(t, c.token)
			}
			conn, err := peer.Connect()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, err = protocolv1.NewWorkerControlClient(conn).StartDrain(ctx, &protocolv1.StartDrainRequest{ExpectedPodUid: "uid-1"})
			if (err == nil) != c.fine || !c.fine && status.Code(err) != codes.Unavailable {
				t.Errorf("%s drains a worker: %v", name, err)
			}
		})
	}
}

// An issuer outside gives the workers' certificates, and gives others what they ask for. The operator believes the pool by that issuer; nobody
// gives orders with a certificate of it.
func TestWithAnIssuerOutside(t *testing.T) {
	w := newWorld(t)
	host := runtimeconfig.WorkerHost("resize", "media")
	entry := runtimeconfig.WorkerName("resize")
	corporate := transporttest.NewAuthority(t)
	root, err := os.ReadFile(corporate.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	_, _, caFile := w.mount("media", "bundle", "bundle")
	certFile, keyFile := corporate.IssueFor(t, host, x509.ExtKeyUsageServerAuth)
	port := w.sidecar(certFile, keyFile, caFile)
	target := Target{Namespace: "media", PodUID: "uid-1", PodIP: "127.0.0.1", Host: host}
	operator := New(w.authority, w.issuer().Roots).WithPort(port)
	if _, err := operator.Status(t.Context(), target); err == nil {
		t.Error("the operator believes a worker whose issuer nobody named")
	}
	var secret corev1.Secret
	if err := w.c.Get(t.Context(), client.ObjectKey{Namespace: "media", Name: runtimeconfig.TLSSecretName}, &secret); err != nil {
		t.Fatal(err)
	}
	secret.Data[entry+".ca"] = root
	if err := w.c.Update(t.Context(), &secret); err != nil {
		t.Fatal(err)
	}
	_, _, mounted := w.mount("media", "bundle", "bundle")
	port = w.sidecar(certFile, keyFile, mounted)
	if _, err := New(w.authority, w.issuer().Roots).WithPort(port).Status(t.Context(), target); err != nil {
		t.Errorf("the operator meets its pool: %v", err)
	}
	target.Namespace = "shop"
	if _, err := New(w.authority, w.issuer().Roots).WithPort(port).Status(t.Context(), target); err == nil {
		t.Error("an issuer of one namespace is believed in another")
	}
	clientCert, clientKey := corporate.IssueFor(t, runtimeconfig.OperatorCommonName, x509.ExtKeyUsageClientAuth)
	peer := transport.Peer{
		Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), TLS: transporttest.WithCertificate(t, transport.ClientTLS(mounted, host), clientCert, clientKey),
	}
	conn, err := peer.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = protocolv1.NewWorkerControlClient(conn).StartDrain(ctx, &protocolv1.StartDrainRequest{ExpectedPodUid: "uid-1"})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("a client of the issuer with the operator's name drains a worker: %v", err)
	}
}
