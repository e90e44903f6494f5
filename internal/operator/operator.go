package operator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/flow"
	"github.com/workpulling/workpulling/controllers/pool"
	"github.com/workpulling/workpulling/internal/certs"
	"github.com/workpulling/workpulling/internal/children"
	"github.com/workpulling/workpulling/internal/flowstats"
	"github.com/workpulling/workpulling/internal/metrics"
	"github.com/workpulling/workpulling/internal/workercontrol"
)

// The metrics endpoint asks who scrapes it, and whether they may. The rights in the operator's own namespace (the leader's Lease and the
// authority's Secret) are in config/rbac/namespaced_role.yaml.
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

const (
	// reconcileTimeout ends a reconcile that waits for an API server or a cache that does not come.
	reconcileTimeout = 2 * time.Minute
	// createBackOff is the first and the longest pause after a refused creation.
	createBackOff, createBackOffMax = time.Second, 2 * time.Minute
	// queued is how many published reports may wait for a reconciler.
	queued = 8192
)

// Operator is an operator that is ready to run.
type Operator struct {
	manager ctrl.Manager
	// Registry holds the reports of the producers.
	Registry *flowstats.Registry
	// Authority is the certificate authority.
	Authority *certs.Authority
}

// Parts replaces parts of an operator in a test; nil members are the real ones.
type Parts struct {
	// Control speaks to workers.
	Control func(*certs.Issuer) pool.Control
	// Metrics is where metrics are registered.
	Metrics crmetrics.RegistererGatherer
}

// New puts an operator together and loads its certificate authority. It waits for an API server that does not answer yet, for
// startPatience.
func New(ctx context.Context, config *rest.Config, options Options, parts Parts, log logr.Logger) (*Operator, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	if parts.Metrics == nil {
		parts.Metrics = crmetrics.Registry
	}
	g, err := newGround(config, options)
	if err != nil {
		return nil, err
	}
	direct, err := client.New(g.config, client.Options{Scheme: g.scheme, Mapper: g.mapper})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	authority := certs.NewAuthority(direct, types.NamespacedName{Namespace: options.Namespace, Name: options.AuthoritySecret}, clock.RealClock{}, log)
	if err := reach(ctx, log, func(ctx context.Context) error {
		if err := authority.Sync(ctx); err != nil {
			return err
		}
		return g.lookUp()
	}); err != nil {
		return nil, err
	}
	var left []string
	if options.Confined {
		if options.WatchNamespaces, left, err = leaveOut(ctx, direct, options.WatchNamespaces, log); err != nil {
			return nil, err
		}
		if g.caching, err = cacheOptions(options.WatchNamespaces, true); err != nil {
			return nil, err
		}
	}
	manager, err := newManager(g, options, authority, log)
	if err != nil {
		return nil, err
	}
	o := &Operator{manager: manager, Authority: authority, Registry: flowstats.NewRegistry(clock.RealClock{}, options.StatusInterval)}
	if err := o.addReconcilers(ctx, direct, options, parts); err != nil {
		return nil, err
	}
	if err := o.addServers(g, direct, options, parts, log); err != nil {
		return nil, err
	}
	if len(left) > 0 {
		if err := manager.Add(&absent{left, direct, clock.RealClock{}}); err != nil {
			return nil, fmt.Errorf("adding the look for missing namespaces: %w", err)
		}
	}
	return o, nil
}

// Run runs the operator until ctx ends.
func (o *Operator) Run(ctx context.Context) error {
	if err := o.manager.Start(ctx); err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}

func newManager(g ground, options Options, authority *certs.Authority, log logr.Logger) (ctrl.Manager, error) {
	manager, err := ctrl.NewManager(g.config, ctrl.Options{
		Scheme: g.scheme, Logger: log, Cache: g.caching,
		MapperProvider:                func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return g.mapper, nil },
		Client:                        client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: ptr.To(true)}},
		Metrics:                       metricsOptions(options, authority),
		HealthProbeBindAddress:        options.ProbeAddress,
		LeaderElection:                options.LeaderElection,
		LeaderElectionID:              options.LeaderElectionID,
		LeaderElectionNamespace:       options.Namespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := manager.AddHealthzCheck("alive", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the health check: %w", err)
	}
	err = manager.AddReadyzCheck("caches", func(request *http.Request) error {
		if !manager.GetCache().WaitForCacheSync(request.Context()) {
			return errors.New("the caches are not in sync yet")
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("adding the readiness check: %w", err)
	}
	return manager, nil
}

// metricsOptions say that metrics are for those who prove to the API server who they are, and may get the path; or, where it cannot be asked,
// for those who get into the pod.
func metricsOptions(options Options, authority *certs.Authority) metricsserver.Options {
	served := metricsserver.Options{
		BindAddress: options.MetricsAddress, SecureServing: true,
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { serveAs(c, authority, options.metricsHost()) }},
	}
	if !options.Confined {
		served.FilterProvider = scrapers
	}
	return served
}

// serveAs makes a server present a certificate of the authority for host.
func serveAs(c *tls.Config, authority *certs.Authority, host string) {
	c.MinVersion = tls.VersionTLS13
	c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return authority.Certificate(certs.Leaf{CommonName: host, Hosts: []string{host}, Usage: x509.ExtKeyUsageServerAuth})
	}
}

func (o *Operator) addReconcilers(ctx context.Context, direct client.Client, options Options, parts Parts) error {
	host, err := options.host()
	if err != nil {
		return err
	}
	if parts.Control == nil {
		parts.Control = func(i *certs.Issuer) pool.Control { return workercontrol.New(i.Authority, i.Roots) }
	}
	manager := o.manager
	recorder := manager.GetEventRecorder(children.ManagedBy)
	issuer := &certs.Issuer{
		Authority: o.Authority, Clock: clock.RealClock{}, Pause: options.RotationPause,
		Keeper: children.Keeper{Client: manager.GetClient(), Live: manager.GetAPIReader()},
	}
	if options.CertificateIssuer != (certs.IssuerRef{}) {
		issuer.Outside = &certs.Outside{Ref: options.CertificateIssuer, Client: direct}
	}
	rotation := &certs.Rotation{
		Issuer: issuer, Pause: options.RotationPause, Clock: clock.RealClock{}, Recorder: recorder, Log: manager.GetLogger().WithName("rotation"),
	}
	if err := manager.Add(rotation); err != nil {
		return fmt.Errorf("adding the rotation of the certificate authority: %w", err)
	}
	measured := metrics.NewOperator(parts.Metrics, o.Authority)
	control := controller.Options{
		MaxConcurrentReconciles: options.Concurrency, ReconciliationTimeout: reconcileTimeout, EnableWarmup: ptr.To(true),
		SkipNameValidation: ptr.To(true),
	}
	pools := &pool.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Direct: direct, Recorder: recorder, Issuer: issuer, Confined: options.Confined,
		Control: parts.Control(issuer), Stats: o.Registry, Metrics: measured, Clock: clock.RealClock{},
		BackOff: flowcontrol.NewBackOff(createBackOff, createBackOffMax), Image: options.RuntimeImage, Network: options.network(),
		NewName: func(pool string) string { return pool + "-" + rand.String(5) },
	}
	if err := pools.SetupWithManager(ctx, manager, control, o.reports()); err != nil {
		return err
	}
	flows := &flow.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Direct: direct, Recorder: recorder, Issuer: issuer,
		Stats: o.Registry, Metrics: measured, Clock: clock.RealClock{},
		Settings: flow.Settings{
			Image: options.RuntimeImage, OperatorAddress: options.Address, OperatorHost: host,
			TokenReviewerClusterRole: options.TokenReviewerClusterRole, Confined: options.Confined, Network: options.network(),
		},
	}
	return flows.SetupWithManager(manager, control, o.reports())
}

// reports is a channel with each flow whose published report changed. Where a reconciler is that far behind, it will look anyway.
func (o *Operator) reports() <-chan event.GenericEvent {
	channel := make(chan event.GenericEvent, queued)
	o.Registry.OnPublish(func(key types.NamespacedName) {
		changed := &v1alpha1.WorkPullingFlow{}
		changed.Namespace, changed.Name = key.Namespace, key.Name
		select {
		case channel <- event.GenericEvent{Object: changed}:
		default:
		}
	})
	return channel
}

func (o *Operator) addServers(g ground, direct client.Client, options Options, parts Parts, log logr.Logger) error {
	if err := o.manager.Add(o.Authority); err != nil {
		return fmt.Errorf("adding the certificate authority: %w", err)
	}
	if err := o.manager.Add(o.Registry); err != nil {
		return fmt.Errorf("adding the registry of reports: %w", err)
	}
	watchman := &rewind{version: storeVersion(direct, options.WatchNamespaces), clock: clock.RealClock{}, log: log.WithName("rewind")}
	if err := o.manager.Add(watchman); err != nil {
		return fmt.Errorf("adding the look at the version of the cluster's store: %w", err)
	}
	host, err := options.host()
	if err != nil || host == "" {
		return err
	}
	judge, err := g.judge(direct, options, log)
	if err != nil {
		return err
	}
	serving := &tls.Config{}
	serveAs(serving, o.Authority, host)
	// HTTP/2 is what gRPC speaks; without the name the handshake is refused.
	serving.NextProtos = []string{"h2"}
	server := &flowstats.Server{
		Address: options.ReportsAddress, TLS: serving, Registry: o.Registry, Log: log.WithName("reports"),
		Identify: flowstats.TokenIdentity(direct, judge),
	}
	metrics.RegisterRefusedReports(parts.Metrics, server.Refused.Counts)
	if err := o.manager.Add(server); err != nil {
		return fmt.Errorf("adding the server of reports: %w", err)
	}
	return nil
}
