package operator

import (
	"flag"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
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
	flags.StringVar(&options.ProbeAddress, "health-probe-bind-address", options.ProbeAddress, "where /healthz and /readyz are served; 0 turns them off")
	flags.StringVar(&options.TokenReviewerClusterRole, "token-reviewer-cluster-role", options.TokenReviewerClusterRole,
		"ClusterRole that lets a producer have tokens reviewed")
	flags.StringVar(&options.AuthoritySecret, "ca-secret", options.AuthoritySecret, "name of the Secret of the certificate authority")
	flags.DurationVar(&options.RotationPause, "ca-rotation-pause", options.RotationPause,
		"how long each step of a rotation of the certificate authority waits for kubelets to bring changes into pods")
	flags.Func("watch-namespaces", "comma-separated `namespaces` to watch; empty means all", func(list string) error {
		options.WatchNamespaces = namespaces(list)
		return nil
	})
	flags.BoolVar(&options.LeaderElection, "leader-elect", options.LeaderElection, "elect a leader among the replicas")
	flags.StringVar(&options.LeaderElectionID, "leader-election-id", options.LeaderElectionID, "name of the leader's Lease")
	flags.IntVar(&options.Concurrency, "concurrency", options.Concurrency, "flows, and pools, that are reconciled at a time")
	flags.DurationVar(&options.StatusInterval, "status-interval", options.StatusInterval,
		"least time between two status writes of a flow of which only numbers changed")
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
