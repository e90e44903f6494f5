package producer

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// Options says where a producer sidecar finds its world. DefaultOptions gives the paths and ports that the operator builds pods with.
type Options struct {
	Log         logr.Logger
	Incarnation protocol.Incarnation

	ConfigFile, CAFile, TLSDir, TokenFile, APIDir, DataDir, IntakeSocket string
	// LossFile counts the jobs of a volatile queue, so that the next process can say how many were lost.
	LossFile                                                       string
	HealthAddress, MetricsAddress, TransportAddress, IntakeAddress string

	// ConfigPoll is how often the configuration is looked at again (2 s).
	ConfigPoll time.Duration
	// Authenticator replaces the checks against the API server, for tests.
	Authenticator transport.Authenticator
}

// DefaultOptions returns the options of a sidecar inside a pod.
func DefaultOptions(log logr.Logger, incarnation protocol.Incarnation) Options {
	port := func(n int) string { return fmt.Sprintf(":%d", n) }
	return Options{
		Log:              log,
		Incarnation:      incarnation,
		ConfigFile:       runtimeconfig.ConfigFile,
		CAFile:           runtimeconfig.CAFile,
		TLSDir:           runtimeconfig.TLSDir,
		TokenFile:        runtimeconfig.TokenFile,
		APIDir:           runtimeconfig.APIDir,
		DataDir:          runtimeconfig.DataDir,
		IntakeSocket:     runtimeconfig.IntakeSocket,
		LossFile:         runtimeconfig.RunDir + "/volatile-jobs",
		HealthAddress:    port(runtimeconfig.PortHealth),
		MetricsAddress:   port(runtimeconfig.PortMetrics),
		TransportAddress: port(runtimeconfig.PortTransport),
		IntakeAddress:    port(runtimeconfig.PortIntake),
		ConfigPoll:       2 * time.Second,
	}
}
