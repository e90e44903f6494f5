// Command operator runs the Workpulling operator.
//
// Invariants:
//   - It may be killed at any time and run more than once: only the leader writes, and everything it knows is in the API server.
//   - Jobs flow without it; it is needed to change things, not to keep them going.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/workpulling/workpulling/internal/operator"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

func main() {
	options, log, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	if err := run(ctrl.SetupSignalHandler(), options, log); err != nil {
		log.Error(err, "Stopped")
		os.Exit(1)
	}
}

func parse(args []string) (operator.Options, logr.Logger, error) {
	options := operator.Defaults()
	flags := flag.CommandLine
	flags.Init("operator", flag.ContinueOnError)
	flags.StringVar(&options.Namespace, "namespace", os.Getenv(runtimeconfig.EnvPodNamespace), "the operator's own namespace")
	flags.StringVar(&options.RuntimeImage, "runtime-image", "", "image of the sidecars (required)")
	flags.StringVar(&options.Address, "operator-address", "", "host:port of the operator's Service, where producers report; empty turns reports off")
	flags.StringVar(&options.ReportsAddress, "reports-bind-address", options.ReportsAddress, "where the leader listens for reports")
	flags.StringVar(&options.MetricsAddress, "metrics-bind-address", options.MetricsAddress, "where metrics are served over HTTPS; 0 turns them off")
	flags.StringVar(&options.ProbeAddress, "health-probe-bind-address", options.ProbeAddress, "where /healthz and /readyz are served; 0 turns them off")
	flags.StringVar(&options.TokenReviewerClusterRole, "token-reviewer-cluster-role", options.TokenReviewerClusterRole,
		"ClusterRole that lets a producer have tokens reviewed")
	flags.StringVar(&options.AuthoritySecret, "ca-secret", options.AuthoritySecret, "name of the Secret of the certificate authority")
	namespaces := flags.String("watch-namespaces", "", "comma-separated namespaces to watch; empty means all")
	flags.BoolVar(&options.LeaderElection, "leader-elect", options.LeaderElection, "elect a leader among the replicas")
	flags.StringVar(&options.LeaderElectionID, "leader-election-id", options.LeaderElectionID, "name of the leader's Lease")
	flags.IntVar(&options.Concurrency, "concurrency", options.Concurrency, "flows, and pools, that are reconciled at a time")
	flags.DurationVar(&options.StatusInterval, "status-interval", options.StatusInterval,
		"least time between two status writes of a flow of which only numbers changed")
	logging := zap.Options{}
	logging.BindFlags(flags)
	if err := flags.Parse(args); err != nil {
		return options, logr.Discard(), err
	}
	for namespace := range strings.SplitSeq(*namespaces, ",") {
		if namespace = strings.TrimSpace(namespace); namespace != "" {
			options.WatchNamespaces = append(options.WatchNamespaces, namespace)
		}
	}
	return options, zap.New(zap.UseFlagOptions(&logging)), nil
}

func run(ctx context.Context, options operator.Options, log logr.Logger) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	op, err := operator.New(ctx, config, options, operator.Parts{}, log)
	if err != nil {
		return err
	}
	return op.Run(ctx)
}
