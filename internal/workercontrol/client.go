package workercontrol

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/workpulling/workpulling/internal/certs"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// callTimeout bounds one question, dialling included. A sidecar that needs longer counts as busy.
const callTimeout = 3 * time.Second

// Target is one worker.
type Target struct {
	Namespace string
	PodUID    string
	PodIP     string
	// Host is the name in the certificate of the pool's workers.
	Host string
}

// Client speaks to workers. The zero value is not usable; see New.
type Client struct {
	authority *certs.Authority
	roots     Roots
	port      int
}

// Roots returns what verifies the workers of a namespace.
type Roots func(ctx context.Context, namespace string) (*x509.CertPool, error)

// New returns a Client that identifies itself with a certificate of authority, which an issuer outside never gives: workers take orders from
// whoever has one. Workers prove themselves by roots.
func New(authority *certs.Authority, roots Roots) *Client {
	return &Client{authority: authority, roots: roots, port: runtimeconfig.PortTransport}
}

// WithPort returns a Client that dials another port, for workers that share one address in a test.
func (c *Client) WithPort(port int) *Client {
	return &Client{authority: c.authority, roots: c.roots, port: port}
}

// Status describes the worker.
func (c *Client) Status(ctx context.Context, target Target) (*protocolv1.WorkerStatus, error) {
	return call(ctx, c, target, func(ctx context.Context, control protocolv1.WorkerControlClient) (*protocolv1.WorkerStatus, error) {
		status, err := control.GetStatus(ctx, &protocolv1.GetStatusRequest{})
		if err == nil && status.PodUid != target.PodUID {
			return nil, fmt.Errorf("the address belongs to pod %s", status.PodUid)
		}
		return status, err
	})
}

// CordonIfIdle stops the worker's demand if it holds nothing, and says whether it did.
func (c *Client) CordonIfIdle(ctx context.Context, target Target) (bool, error) {
	reply, err := call(ctx, c, target, func(ctx context.Context, control protocolv1.WorkerControlClient) (*protocolv1.CordonIfIdleReply, error) {
		return control.CordonIfIdle(ctx, &protocolv1.CordonIfIdleRequest{ExpectedPodUid: target.PodUID})
	})
	return reply.GetCordoned(), err
}

// StartDrain tells the worker to finish what runs and to give back the rest.
func (c *Client) StartDrain(ctx context.Context, target Target) error {
	_, err := call(ctx, c, target, func(ctx context.Context, control protocolv1.WorkerControlClient) (*protocolv1.WorkerStatus, error) {
		return control.StartDrain(ctx, &protocolv1.StartDrainRequest{ExpectedPodUid: target.PodUID})
	})
	return err
}

// Uncordon lets the worker take jobs again.
func (c *Client) Uncordon(ctx context.Context, target Target) error {
	_, err := call(ctx, c, target, func(ctx context.Context, control protocolv1.WorkerControlClient) (*protocolv1.WorkerStatus, error) {
		return control.Uncordon(ctx, &protocolv1.UncordonRequest{ExpectedPodUid: target.PodUID})
	})
	return err
}

func call[T any](ctx context.Context, c *Client, target Target, do func(context.Context, protocolv1.WorkerControlClient) (*T, error)) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	roots, err := c.roots(ctx, target.Namespace)
	if err != nil {
		return nil, fmt.Errorf("verifying worker %s: %w", target.PodIP, err)
	}
	conn, err := grpc.NewClient(
		"passthrough:///"+net.JoinHostPort(target.PodIP, strconv.Itoa(c.port)),
		grpc.WithTransportCredentials(credentials.NewTLS(c.tls(target.Host, roots))),
	)
	if err != nil {
		return nil, fmt.Errorf("connecting to worker %s: %w", target.PodIP, err)
	}
	defer conn.Close()
	answer, err := do(ctx, protocolv1.NewWorkerControlClient(conn))
	if err != nil {
		return nil, fmt.Errorf("asking worker %s: %w", target.PodIP, err)
	}
	return answer, nil
}

func (c *Client) tls(host string, roots *x509.CertPool) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		RootCAs:    roots,
		ServerName: host,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return c.authority.Certificate(certs.Leaf{CommonName: runtimeconfig.OperatorCommonName, Usage: x509.ExtKeyUsageClientAuth})
		},
	}
}
