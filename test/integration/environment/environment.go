package environment

import (
	"context"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/workpulling/workpulling/api/v1alpha1"
)

// Options of Start. The zero value is usable.
type Options struct {
	// ControllerManagerArgs are further arguments of kube-controller-manager, such
	// as a shorter sync period. A cluster of KUBECONFIG does not get them.
	ControllerManagerArgs []string
	// APIServerArgs are further arguments of kube-apiserver. A cluster of KUBECONFIG and the binaries of KUBEBUILDER_ASSETS do not get them; Own
	// says whether they would be used.
	APIServerArgs []string
}

// Environment is a Kubernetes API with our CRDs.
type Environment struct {
	// Config reaches the API as an administrator.
	Config *rest.Config
	// Kubeconfig is a file that says the same, for other programs; empty where the API comes from KUBEBUILDER_ASSETS.
	Kubeconfig string
	// Client knows the core kinds and ours. It refuses unknown fields.
	Client client.Client
	// HasControllers says whether a controller manager runs: garbage collection,
	// namespace deletion and the HPA work only then.
	HasControllers bool

	stop func() error
}

// Start gives an environment, or an error that says what is missing. The first
// start on a machine builds Kubernetes and takes minutes.
func Start(ctx context.Context, options Options) (*Environment, error) {
	env, err := connect(ctx, options)
	if err != nil {
		return nil, err
	}
	if err := env.prepare(ctx); err != nil {
		return nil, errors.Join(err, env.Stop())
	}
	return env, nil
}

// Stop ends what Start started. A cluster of KUBECONFIG goes on.
func (e *Environment) Stop() error { return e.stop() }

// Namespace makes a new namespace. The caller deletes it with DeleteNamespace.
func (e *Environment) Namespace(ctx context.Context, prefix string) (string, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"}}
	if err := e.Client.Create(ctx, namespace); err != nil {
		return "", fmt.Errorf("making a namespace: %w", err)
	}
	return namespace.Name, nil
}

// DeleteNamespace starts the deletion of a namespace.
func (e *Environment) DeleteNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return client.IgnoreNotFound(e.Client.Delete(ctx, namespace))
}

// Scheme has the core kinds and ours.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}

// Own says whether Start gives a control plane of its own, which every argument reaches.
func Own() bool { return os.Getenv("KUBECONFIG") == "" && os.Getenv("KUBEBUILDER_ASSETS") == "" }

func connect(ctx context.Context, options Options) (*Environment, error) {
	if path := os.Getenv("KUBECONFIG"); path != "" {
		return connectTo(path, func() error { return nil })
	}
	if os.Getenv("KUBEBUILDER_ASSETS") != "" {
		return startEnvtest()
	}
	return startControlPlane(ctx, options)
}

func connectTo(kubeconfig string, stop func() error) (*Environment, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading %s: %w", kubeconfig, err), stop())
	}
	return &Environment{Config: config, Kubeconfig: kubeconfig, HasControllers: true, stop: stop}, nil
}

func startEnvtest() (*Environment, error) {
	assets := &envtest.Environment{}
	config, err := assets.Start()
	if err != nil {
		return nil, fmt.Errorf("starting the binaries of KUBEBUILDER_ASSETS: %w", err)
	}
	return &Environment{Config: config, stop: assets.Stop}, nil
}

// prepare installs the CRDs and makes the client.
func (e *Environment) prepare(ctx context.Context) error {
	// A test suite is one client that waits for no one.
	e.Config.QPS = -1
	plain, err := client.New(e.Config, client.Options{Scheme: Scheme()})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	e.Client = client.WithFieldValidation(plain, metav1.FieldValidationStrict)
	return e.installCRDs(ctx)
}
