package producer

import (
	"cmp"
	"context"
	"os"
	"time"

	"github.com/go-logr/logr"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/sidecar/intake"
)

// Options says where a producer sidecar finds its world. DefaultOptions gives the paths and ports that the operator builds pods with.
type Options struct {
	Log         logr.Logger
	Incarnation protocol.Incarnation

	ConfigFile, CAFile, TLSDir, TokenFile, APIDir, DataDir string
	// IntakeSocket is where the app beside submits, ProducerSocket where it opens producer streams; empty for nowhere.
	IntakeSocket, ProducerSocket string
	// LossFile counts the jobs of a volatile queue, so that the next process can say how many were lost.
	LossFile string
	// HaltFile keeps a terminal failure from being forgotten by a restart.
	HaltFile string
	// TransportAddress is listened on for workers. The others may be empty for nowhere.
	TransportAddress, IntakeAddress, HealthAddress, MetricsAddress string

	// ConfigPoll is how often the configuration is looked at again (2 s).
	ConfigPoll time.Duration
	// PodName, and Host, the address that other members find this one at, are those of the pod. Ports are those of TransportAddress and
	// IntakeAddress. Only a shared queue needs them.
	PodName, Host string
	// NodeName is where the pod runs, for people. Empty: that is not known.
	NodeName string
	// QueueDir holds the connection string of a PostgreSQL queue.
	QueueDir string
	// Authenticator replaces the checks against the API server where there is none, and Lease then the flow's Lease.
	Authenticator transport.Authenticator
	Lease         Lease
	// Neighbours replaces what the API server tells of the pods of the namespace, where Authenticator replaces the rest. It is given the switch.
	Neighbours func(trusted func() bool) intake.Neighbours
	// OpenQueue replaces the back-end of the document's type, for tests.
	OpenQueue func(ctx context.Context, window time.Duration) (queue.WorkQueue, error)
}

// DefaultOptions returns the options of a sidecar in its place, which is a pod.
func DefaultOptions(log logr.Logger, incarnation protocol.Incarnation, place runtimeconfig.Place) Options {
	return Options{
		Log:              log,
		Incarnation:      incarnation,
		ConfigFile:       place.Path(runtimeconfig.ConfigFile),
		CAFile:           place.Path(runtimeconfig.CAFile),
		TLSDir:           place.Path(runtimeconfig.TLSDir),
		TokenFile:        place.Path(runtimeconfig.TokenFile),
		APIDir:           place.Path(runtimeconfig.APIDir),
		DataDir:          place.Path(runtimeconfig.DataDir),
		IntakeSocket:     place.Path(runtimeconfig.IntakeSocket),
		ProducerSocket:   place.Path(runtimeconfig.ProducerSocket),
		LossFile:         place.Path(runtimeconfig.RunDir + "/volatile-jobs"),
		HaltFile:         place.Path(runtimeconfig.RunDir + "/failure.json"),
		HealthAddress:    place.Address(runtimeconfig.PortHealth),
		MetricsAddress:   place.Address(runtimeconfig.PortMetrics),
		TransportAddress: place.Address(runtimeconfig.PortTransport),
		IntakeAddress:    place.Address(runtimeconfig.PortIntake),
		QueueDir:         place.Path(runtimeconfig.QueueDir),
		PodName:          os.Getenv(runtimeconfig.EnvPodName),
		NodeName:         os.Getenv(runtimeconfig.EnvNodeName),
		Host:             cmp.Or(place.Host, os.Getenv(runtimeconfig.EnvPodIP)),
		ConfigPoll:       2 * time.Second,
	}
}
