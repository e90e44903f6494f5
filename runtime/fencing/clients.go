package fencing

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Rate limits of each client, requests a second and burst.
const (
	reviewRate  = 20
	reviewBurst = 50
)

// Clients are what a Guard talks to the API server with. Workers and submitters have review clients of their own, so that a
// flood of one kind cannot use up the rate limit of the other.
type Clients struct {
	WorkerTokens, SubmitterTokens TokenReviewer
	Access                        AccessReviewer
	Metadata                      metadata.Interface
	Dynamic                       dynamic.Interface
	Keys                          KeySource
	// OwnToken is what we present ourselves as; who issued it issues the tokens of others.
	OwnToken func() (string, error)
}

// TokenReviewer has the API server review a token.
type TokenReviewer interface {
	ReviewToken(context.Context, *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error)
}

// AccessReviewer asks the API server whether a user may do something in its namespace.
type AccessReviewer interface {
	ReviewAccess(context.Context, *authorizationv1.LocalSubjectAccessReview) (*authorizationv1.LocalSubjectAccessReview, error)
}

// NewFromFiles returns a Guard whose clients use the token and CA in a directory such as a pod's ServiceAccount volume. Both
// are read anew when they change.
func NewFromFiles(options Options, dir string) (*Guard, error) {
	config, err := inPod(dir)
	if err != nil {
		return nil, err
	}
	clients, err := NewClients(config, options.Namespace)
	if err != nil {
		return nil, err
	}
	return New(options, clients), nil
}

// inPod is how the API server of this pod is reached.
func inPod(dir string) (*rest.Config, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no pod")
	}
	return &rest.Config{
		Host:            "https://" + net.JoinHostPort(host, port),
		BearerTokenFile: filepath.Join(dir, "token"),
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(dir, "ca.crt")},
		UserAgent:       "workpulling-sidecar",
	}, nil
}

// NewClients returns the clients of a Guard for one API server. They share one connection; each has its own rate limit. The
// typed clientset is not used, because it would bring every type of Kubernetes into each producer pod.
func NewClients(config *rest.Config, namespace string) (Clients, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = reviewRate, reviewBurst
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		return Clients{}, fmt.Errorf("preparing the connection to the API server: %w", err)
	}
	workers, err1 := reviewClient(config, web, authenticationv1.SchemeGroupVersion)
	submitters, err2 := reviewClient(config, web, authenticationv1.SchemeGroupVersion)
	access, err3 := reviewClient(config, web, authorizationv1.SchemeGroupVersion)
	objects, err4 := metadata.NewForConfigAndClient(config, web)
	resources, err5 := dynamic.NewForConfigAndClient(config, web)
	keys, err6 := newKeyClient(config, web)
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return Clients{}, fmt.Errorf("preparing the clients of the API server: %w", err)
	}
	return Clients{
		WorkerTokens: reviews{workers, namespace}, SubmitterTokens: reviews{submitters, namespace}, Access: reviews{access, namespace},
		Metadata: objects, Dynamic: resources, Keys: keys, OwnToken: presented(config),
	}, nil
}

// presented is the token that a client presents now.
func presented(config *rest.Config) func() (string, error) {
	return func() (string, error) {
		if config.BearerTokenFile == "" {
			return config.BearerToken, nil
		}
		raw, err := os.ReadFile(config.BearerTokenFile)
		return string(raw), err
	}
}

// reviewClient is a REST client that knows the review types only.
func reviewClient(config *rest.Config, web *http.Client, group schema.GroupVersion) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(authenticationv1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/apis", &group
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientForConfigAndClient(config, web)
}

type reviews struct {
	client    rest.Interface
	namespace string
}

func (r reviews) ReviewToken(ctx context.Context, review *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
	out := new(authenticationv1.TokenReview)
	return out, r.client.Post().Resource("tokenreviews").Body(review).Do(ctx).Into(out)
}

func (r reviews) ReviewAccess(ctx context.Context, review *authorizationv1.LocalSubjectAccessReview) (*authorizationv1.LocalSubjectAccessReview, error) {
	out := new(authorizationv1.LocalSubjectAccessReview)
	return out, r.client.Post().Namespace(r.namespace).Resource("localsubjectaccessreviews").Body(review).Do(ctx).Into(out)
}
