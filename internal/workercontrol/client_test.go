package workercontrol

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/workpulling/workpulling/internal/certs"
	"github.com/workpulling/workpulling/internal/children"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
)

type worker struct {
	protocolv1.UnimplementedWorkerControlServer
}

func (w *worker) GetStatus(context.Context, *protocolv1.GetStatusRequest) (*protocolv1.WorkerStatus, error) {
	return &protocolv1.WorkerStatus{PodUid: "uid-1", Running: 2}, nil
}

func (w *worker) CordonIfIdle(_ context.Context, r *protocolv1.CordonIfIdleRequest) (*protocolv1.CordonIfIdleReply, error) {
	return &protocolv1.CordonIfIdleReply{Cordoned: r.ExpectedPodUid == "uid-1"}, nil
}

func TestClient(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(clientscheme.Scheme).Build()
	authority := certs.NewAuthority(c, types.NamespacedName{Namespace: "system", Name: "ca"}, clock.RealClock{}, logr.Discard())
	if err := authority.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	host := runtimeconfig.WorkerHost("resize", "media")
	serving, err := authority.Certificate(certs.Leaf{CommonName: host, Hosts: []string{host}, Usage: x509.ExtKeyUsageServerAuth})
	if err != nil {
		t.Fatal(err)
	}
	peers := make(chan string, 8)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*serving}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool(),
		VerifyConnection: func(state tls.ConnectionState) error {
			peers <- state.PeerCertificates[0].Subject.CommonName
			return nil
		},
	})))
	protocolv1.RegisterWorkerControlServer(server, &worker{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := server.Serve(listener); err != nil {
			t.Error(err)
		}
	}()
	defer server.Stop()
	address, _ := listener.Addr().(*net.TCPAddr)
	client := New(authority, (&certs.Issuer{Authority: authority, Keeper: children.Keeper{Client: c, Live: c}}).Roots).WithPort(address.Port)
	target := Target{PodUID: "uid-1", PodIP: "127.0.0.1", Host: host}

	status, err := client.Status(t.Context(), target)
	if err != nil || status.Running != 2 {
		t.Fatalf("status %v, error %v", status, err)
	}
	if got := <-peers; got != runtimeconfig.OperatorCommonName {
		t.Errorf("the worker met %q", got)
	}
	if cordoned, err := client.CordonIfIdle(t.Context(), target); err != nil || !cordoned {
		t.Errorf("cordoned %v, error %v", cordoned, err)
	}
	target.PodUID = "uid-2"
	if _, err := client.Status(t.Context(), target); err == nil {
		t.Error("another pod's status was taken for this one's")
	}
	target.Host = runtimeconfig.WorkerHost("another", "media")
	if _, err := client.Status(t.Context(), target); err == nil {
		t.Error("a worker of another pool was believed")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := client.WithPort(1).Status(ctx, target); err == nil {
		t.Error("an unreachable worker answered")
	}
}
