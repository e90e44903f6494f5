package fencing

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/dynamic"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Rate limits of each client, requests a second and burst.
const (
	reviewRate  = 20
	reviewBurst = 50
)

// NewFromFiles returns a Guard whose clients use the token and CA in a directory such as a pod's ServiceAccount volume. Both
// are read anew when they change.
func NewFromFiles(options Options, dir string) (*Guard, error) {
	config, err := configFromFiles(dir)
	if err != nil {
		return nil, err
	}
	clients, err := NewClients(config, options.Namespace)
	if err != nil {
		return nil, err
	}
	return New(options, clients), nil
}

func configFromFiles(dir string) (*rest.Config, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no pod")
	}
	return &rest.Config{
		Host:            "https://" + net.JoinHostPort(host, port),
		BearerTokenFile: filepath.Join(dir, "token"),
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(dir, "ca.crt")},
		Timeout:         0, // watches are long; every call has its own context
		UserAgent:       "workpulling-sidecar",
	}, nil
}

// NewClients returns the clients of a Guard for one API server.
func NewClients(config *rest.Config, namespace string) (Clients, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = reviewRate, reviewBurst
	// One connection for all: the limits are per client, the transport is shared.
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		return Clients{}, fmt.Errorf("preparing the connection to the API server: %w", err)
	}
	workers, err1 := authenticationclient.NewForConfigAndClient(config, web)
	submitters, err2 := authenticationclient.NewForConfigAndClient(config, web)
	access, err3 := authorizationclient.NewForConfigAndClient(config, web)
	objects, err4 := metadata.NewForConfigAndClient(config, web)
	resources, err5 := dynamic.NewForConfigAndClient(config, web)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return Clients{}, fmt.Errorf("preparing the clients of the API server: %w", err)
	}
	return Clients{
		WorkerTokens:    workers.TokenReviews(),
		SubmitterTokens: submitters.TokenReviews(),
		Access:          access.LocalSubjectAccessReviews(namespace),
		Metadata:        objects,
		Dynamic:         resources,
	}, nil
}
