package fencing

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// keysPath is where every API server serves the public keys of its ServiceAccount tokens. The issuer's own URL may be one that no pod
// reaches, and is whatever an administrator wrote; this one is authenticated by the CA in the pod.
const keysPath = "/openid/v1/jwks"

// keyClient is the KeySource of an API server.
type keyClient struct {
	web *http.Client
	url string
}

func newKeyClient(config *rest.Config, web *http.Client) (*keyClient, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w", err)
	}
	return &keyClient{web: web, url: base.JoinPath(keysPath).String()}, nil
}

// FetchKeys implements KeySource.
func (c *keyClient) FetchKeys(ctx context.Context) (jwks []byte, date time.Time, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, http.NoBody)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("asking for the key set: %w", err)
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	response, err := c.web.Do(request)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("asking for the key set: %w", err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, mostKeysBytes+1))
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("reading the key set: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, time.Time{}, apierrors.NewGenericServerResponse(response.StatusCode, http.MethodGet, schema.GroupResource{Resource: "jwks"}, "", "", 0, true)
	}
	date, err = http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		date = time.Time{} // its clock is taken to be ours
	}
	return raw, date, nil
}
