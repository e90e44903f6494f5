package operator

import (
	"flag"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/workpulling/workpulling/internal/certs"
)

// Flags are all flags of the operator's command. Parsing them changes the options and the settings of the log; what those hold before is
// the default.
func Flags(options *Options, logging *zap.Options) *flag.FlagSet {
	flags := flag.NewFlagSet("operator", flag.ContinueOnError)
	flags.StringVar(&options.Namespace, "namespace", options.Namespace,
		"the operator's own namespace (required; the environment variable POD_NAMESPACE is its default)")
	flags.StringVar(&options.RuntimeImage, "runtime-image", options.RuntimeImage, "image of the sidecars (required)")
	flags.StringVar(&options.Address, "operator-address", options.Address,
		"host:port of the operator's Service, where producers report; empty turns reports off")
	flags.StringVar(&options.ReportsAddress, "reports-bind-address", options.ReportsAddress, "where the leader listens for reports")
	flags.StringVar(&options.MetricsAddress, "metrics-bind-address", options.MetricsAddress, "where metrics are served over HTTPS; 0 turns them off")
	flags.StringVar(&options.MetricsHost, "metrics-host", options.MetricsHost,
		"name in the certificate of the metrics; empty means that of the Service workpulling-operator-metrics in --namespace")
	flags.StringVar(&options.ProbeAddress, "health-probe-bind-address", options.ProbeAddress, "where /healthz and /readyz are served; 0 turns them off")
	flags.StringVar(&options.TokenReviewerClusterRole, "token-reviewer-cluster-role", options.TokenReviewerClusterRole,
		"ClusterRole that lets a producer have tokens reviewed")
	flags.StringVar(&options.AuthoritySecret, "ca-secret", options.AuthoritySecret, "name of the Secret of the certificate authority")
	flags.DurationVar(&options.RotationPause, "ca-rotation-pause", options.RotationPause,
		"how long each step of a rotation of the certificate authority waits for kubelets to bring changes into pods")
	flags.Func("certificate-issuer", "`issuer` of cert-manager, as kind[.group]/name such as ClusterIssuer/workpulling, that gives the certificates of "+
		"producers and workers; empty means the operator's own authority", func(text string) (err error) {
		options.CertificateIssuer, err = certs.ParseIssuerRef(text)
		return err
	})
	flags.Func("watch-namespaces", "comma-separated `namespaces` to watch; empty means all", func(list string) error {
		options.WatchNamespaces = namespaces(list)
		return nil
	})
	flags.BoolVar(&options.Confined, "confined", options.Confined,
		"use no right on the whole cluster; needs --watch-namespaces, and metrics on the loopback address or none")
	flags.BoolVar(&options.LeaderElection, "leader-elect", options.LeaderElection, "elect a leader among the replicas")
	flags.StringVar(&options.LeaderElectionID, "leader-election-id", options.LeaderElectionID, "name of the leader's Lease")
	flags.IntVar(&options.Concurrency, "concurrency", options.Concurrency, "flows, and pools, that are reconciled at a time")
	flags.DurationVar(&options.StatusInterval, "status-interval", options.StatusInterval,
		"least time between two status writes of a flow of which only numbers changed")
	flags.BoolVar(&options.NetworkPolicies, "network-policies", options.NetworkPolicies,
		"make a NetworkPolicy for each flow and pool; off removes those that were made")
	flags.TextVar(&options.Submitters, "network-policy-submitters", options.Submitters,
		"who may reach the intake of producers by these policies: JSON of a list of NetworkPolicy peers; [] means nobody")
	flags.TextVar(&options.Scrapers, "network-policy-scrapers", options.Scrapers,
		"who may read the metrics of producers and workers by these policies: JSON of a list of NetworkPolicy peers; [] means nobody")
	flags.TextVar(&options.AppPorts, "network-policy-app-ports", options.AppPorts,
		"what these policies make of the ports that are not the runtime's: Open to everybody, or Closed unless another policy opens them")
	flags.TextVar(&options.Pods, "operator-pod-labels", options.Pods, "labels of the operator's own pods, for these policies")
	logging.BindFlags(flags)
	config.RegisterFlags(flags)
	return flags
}

func namespaces(list string) (names []string) {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}
