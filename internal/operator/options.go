package operator

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/workpulling/workpulling/controllers/networkpolicy"
	"github.com/workpulling/workpulling/internal/certs"
)

// Options configure an operator.
type Options struct {
	// Namespace is the operator's own. Required.
	Namespace string
	// RuntimeImage is the image of the sidecars. Required.
	RuntimeImage string
	// Address is host:port where producers reach the leader, normally a Service of the operator; empty turns reports off.
	Address string
	// ReportsAddress is where the leader listens for reports (":9443").
	ReportsAddress string
	// MetricsAddress serves metrics over HTTPS with authentication and authorization (":8443"); "0" turns them off.
	MetricsAddress string
	// ProbeAddress serves /healthz and /readyz (":8081"); "0" turns them off.
	ProbeAddress string
	// TokenReviewerClusterRole is the ClusterRole that producers are bound to ("workpulling-token-reviewer").
	TokenReviewerClusterRole string
	// AuthoritySecret is the name of the Secret, in Namespace, of the certificate authority ("workpulling-operator-ca").
	AuthoritySecret string
	// MetricsHost is the name in the certificate of the metrics, normally that of a Service; empty means
	// workpulling-operator-metrics.<Namespace>.svc.
	MetricsHost string
	// NetworkPolicies makes a NetworkPolicy for each flow and pool. It is off by default, because a policy closes what it does not name,
	// and neither who submits jobs nor who scrapes metrics is known here.
	NetworkPolicies bool
	// Pods are the labels of the operator's own pods, in NetworkPolicies ("app.kubernetes.io/name=workpulling,
	// app.kubernetes.io/component=operator").
	Pods Labels
	// Submitters may reach a producer's intake (all pods of its namespace), Scrapers the metrics of all pods (nobody), by NetworkPolicies.
	Submitters, Scrapers networkpolicy.Peers
	// AppPorts is what NetworkPolicies do with the ports of apps (Open).
	AppPorts networkpolicy.AppPorts
	// RotationPause is how long each step of a rotation of the certificate authority waits for kubelets (5 min). Kubelet brings a changed
	// Secret or ConfigMap into a pod within about 90 s.
	RotationPause time.Duration
	// CertificateIssuer is the issuer of cert-manager that gives the certificates of producers and workers; the zero value means that the
	// operator's own authority does.
	CertificateIssuer certs.IssuerRef
	// WatchNamespaces restricts the operator to some namespaces; empty means all.
	WatchNamespaces []string
	// Confined says that the operator does without any right on the whole cluster. It needs Roles in WatchNamespaces and in its own
	// namespace alone, verifies reports by the keys of the cluster, and serves metrics to its own pod alone.
	Confined bool
	// LeaderElection is on in every installation; LeaderElectionID names the Lease ("workpulling-operator").
	LeaderElection   bool
	LeaderElectionID string
	// Concurrency is how many flows, and how many pools, are reconciled at a time (8).
	Concurrency int
	// StatusInterval is the least time between two status writes of a flow of which only numbers changed (10 s).
	StatusInterval time.Duration
}

// Defaults returns the options of an ordinary installation, without those that are required.
func Defaults() Options {
	return Options{
		ReportsAddress: ":9443", MetricsAddress: ":8443", ProbeAddress: ":8081",
		TokenReviewerClusterRole: "workpulling-token-reviewer", AuthoritySecret: "workpulling-operator-ca",
		LeaderElection: true, LeaderElectionID: "workpulling-operator",
		Pods:       Labels{"app.kubernetes.io/name": "workpulling", "app.kubernetes.io/component": "operator"},
		Submitters: networkpolicy.SameNamespace(), AppPorts: networkpolicy.AppPortsOpen,
		RotationPause: 5 * time.Minute, Concurrency: 8, StatusInterval: 10 * time.Second,
	}
}

// leastPause is what kubelet needs with its default settings.
const leastPause = 90 * time.Second

// host is the name in the certificate that producers verify.
func (o Options) host() (string, error) {
	if o.Address == "" {
		return "", nil
	}
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		return "", fmt.Errorf("--operator-address %q is not host:port: %w", o.Address, err)
	}
	return host, nil
}

// metricsHost is the name in the certificate that scrapers verify.
func (o Options) metricsHost() string {
	if o.MetricsHost != "" {
		return o.MetricsHost
	}
	return "workpulling-operator-metrics." + o.Namespace + ".svc"
}

func (o Options) network() networkpolicy.Settings {
	return networkpolicy.Settings{
		Enabled: o.NetworkPolicies, OperatorNamespace: o.Namespace, OperatorPods: o.Pods,
		Submitters: o.Submitters, Scrapers: o.Scrapers, AppPorts: o.AppPorts,
	}
}

func (o Options) validate() error {
	var errs []error
	if o.Namespace == "" {
		errs = append(errs, errors.New("the operator's namespace is not known: set --namespace or POD_NAMESPACE"))
	}
	if o.RuntimeImage == "" {
		errs = append(errs, errors.New("--runtime-image is required: the image of the sidecars"))
	}
	if o.Concurrency < 1 {
		errs = append(errs, fmt.Errorf("--concurrency %d: at least 1 is needed", o.Concurrency))
	}
	if o.RotationPause < leastPause {
		errs = append(errs, fmt.Errorf("--ca-rotation-pause %s: at least %s is needed, or pods meet certificates that they cannot trust yet", o.RotationPause, leastPause))
	}
	errs = append(errs, o.validateConfined())
	if o.NetworkPolicies && len(o.Pods) == 0 {
		errs = append(errs, errors.New("--operator-pod-labels is empty: that would let every pod of the operator's namespace drain workers"))
	}
	if _, err := o.host(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// validateConfined refuses what cannot be done without rights on the whole cluster.
func (o Options) validateConfined() error {
	if !o.Confined {
		return nil
	}
	var errs []error
	if len(o.WatchNamespaces) == 0 {
		errs = append(errs, errors.New("--confined needs --watch-namespaces: to watch all of them is a right on the whole cluster"))
	}
	if !o.metricsStayInside() {
		errs = append(errs, fmt.Errorf("--metrics-bind-address %q: with --confined nobody can be asked who scrapes; use 127.0.0.1:8443, or 0",
			o.MetricsAddress))
	}
	return errors.Join(errs...)
}

// metricsStayInside says whether only the pod itself can reach the metrics.
func (o Options) metricsStayInside() bool {
	if o.MetricsAddress == "0" {
		return true
	}
	host, _, err := net.SplitHostPort(o.MetricsAddress)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}
