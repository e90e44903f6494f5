package apiclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/workpulling/workpulling/hack/cluster/internal/pki"
)

// Client reads from one API server.
type Client struct {
	server string
	http   *http.Client
}

// New makes a client of the server (https://host:port) that trusts the CA (PEM) and shows the certificate.
func New(server string, ca []byte, certificate pki.Pair) (*Client, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("the CA of the API server is not a certificate in PEM")
	}
	pair, err := tls.X509KeyPair(certificate.Cert, certificate.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the client certificate: %w", err)
	}
	return &Client{server: server, http: &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}},
	}}, nil
}

// Get reads a path, and decodes it as JSON into out unless that is nil.
func (c *Client) Get(ctx context.Context, path string, out any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server+path, nil)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %.500s", path, response.Status, body)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(body, out)
}
