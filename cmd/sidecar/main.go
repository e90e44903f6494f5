// Command sidecar is the runtime inside every pod of a flow:
//
//	sidecar worker                  beside a worker's app: pulls jobs and posts them to it
//	sidecar producer                beside a producing app, or alone as a gateway: takes jobs in, stores and dispatches them
//	sidecar install-prestop DIR     copies the prestop program into a volume that it shares with the app, and ends
//	sidecar remove-queue FLOW-UID   deletes all that PostgreSQL holds of a flow that was deleted, and ends
//
// Invariants:
//   - Every start is an incarnation of its own: the pod's UID, and a nonce that was never used before.
//   - SIGTERM ends it in order, as sidecar/worker and sidecar/producer say; it never exits in the middle of a job by itself.
//   - Its heap stays below nine tenths of the container's memory limit, so that garbage alone gets nothing killed.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/workpulling/workpulling/internal/heap"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/sidecar/prestop"
	"github.com/workpulling/workpulling/sidecar/producer"
	"github.com/workpulling/workpulling/sidecar/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sidecar:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "sidecar",
		Short:         "The Workpulling runtime inside a pod",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	level := root.PersistentFlags().String("log-level", "info", "debug, info or error")
	place := placeFlags(root)
	root.PersistentPreRun = func(*cobra.Command, []string) { place.resolve() }
	root.AddCommand(
		&cobra.Command{
			Use:   "worker",
			Short: "Pull jobs and post them to the app beside",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return start(*level, func(log logr.Logger, incarnation protocol.Incarnation) error {
					return worker.Run(cmd.Context(), worker.DefaultOptions(log, incarnation, place.Place))
				})
			},
		},
		&cobra.Command{
			Use:   "producer",
			Short: "Take jobs in, store them and dispatch them to workers",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return start(*level, func(log logr.Logger, incarnation protocol.Incarnation) error {
					return producer.Run(cmd.Context(), producer.DefaultOptions(log, incarnation, place.Place))
				})
			},
		},
		&cobra.Command{
			Use:   "install-prestop DIR",
			Short: "Copy the prestop program into a shared volume",
			Args:  cobra.ExactArgs(1),
			RunE:  func(_ *cobra.Command, args []string) error { return prestop.Install(args[0]) },
		},
		removeQueueCommand(place),
	)
	return root
}

// start gives run its logger and this process start's incarnation: the pod's UID and a fresh boot nonce.
func start(level string, run func(logr.Logger, protocol.Incarnation) error) error {
	log, flush, err := newLogger(level)
	if err != nil {
		return err
	}
	defer flush()
	incarnation := protocol.Incarnation{PodUID: os.Getenv(runtimeconfig.EnvPodUID), BootNonce: rand.Text()}
	if incarnation.PodUID == "" {
		return errors.New("the environment variable " + runtimeconfig.EnvPodUID + " is missing: the operator sets it when it builds the pod")
	}
	log = log.WithValues("pod", os.Getenv(runtimeconfig.EnvPodName), "bootNonce", incarnation.BootNonce[:8])
	heap.Bound(log, memlimit.FromCgroup)
	if err := run(log, incarnation); err != nil {
		log.Error(err, "The sidecar ended")
		return err
	}
	return nil
}

func newLogger(level string) (logr.Logger, func(), error) {
	config := zap.NewProductionConfig()
	parsed, err := zapcore.ParseLevel(strings.ToLower(level))
	if err != nil {
		return logr.Logger{}, nil, fmt.Errorf("parsing --log-level: %w", err)
	}
	config.Level = zap.NewAtomicLevelAt(parsed)
	config.EncoderConfig.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	logger, err := config.Build()
	if err != nil {
		return logr.Logger{}, nil, fmt.Errorf("building the logger: %w", err)
	}
	return zapr.NewLogger(logger), func() { _ = logger.Sync() }, nil
}
