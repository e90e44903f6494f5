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
	stdlog "log"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/workpulling/workpulling/internal/complaints"
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
	stdlog.SetFlags(0)
	stdlog.SetOutput(complaints.Writer(func(line string) { log.Info("A server complains of a caller", "line", strings.TrimSpace(line)) }))
	if err := run(ctrl.SetupSignalHandler(), options, log); err != nil {
		log.Error(err, "Stopped")
		os.Exit(1)
	}
}

func parse(args []string) (operator.Options, logr.Logger, error) {
	options := operator.Defaults()
	options.Namespace = os.Getenv(runtimeconfig.EnvPodNamespace)
	var logging zap.Options
	if err := operator.Flags(&options, &logging).Parse(args); err != nil {
		return options, logr.Discard(), err
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
