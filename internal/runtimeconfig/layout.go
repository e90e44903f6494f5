package runtimeconfig

import (
	"slices"
	"strings"
)

// Ports of the runtime. Templates may not use them.
const (
	PortTransport = 9443 // gRPC, TLS: WorkPulling in a producer, WorkerControl in a worker, FlowStatsCollector in the operator
	PortIntake    = 9444 // HTTPS intake of a producer
	PortHealth    = 9440 // HTTP probes: /healthz, /readyz, /startupz
	PortMetrics   = 9441 // HTTP /metrics
)

// Paths inside a pod.
const (
	ConfigDir    = "/etc/workpulling/config" // ConfigMap volume
	ConfigFile   = ConfigDir + "/config.json"
	CADir        = "/etc/workpulling/ca" // ConfigMap volume with ca.crt and OperatorCAKey
	CAFile       = CADir + "/ca.crt"
	TLSDir       = "/etc/workpulling/tls" // Secret volume with tls.crt and tls.key
	TokenDir     = "/var/run/secrets/workpulling.dev"
	TokenFile    = TokenDir + "/token"                             // projected, audience TokenAudience, bound to the pod, in the sidecar only
	APIDir       = "/var/run/secrets/kubernetes.io/serviceaccount" // projected token, ca.crt and namespace for the API server; in the runtime's container only
	DataDir      = "/var/lib/workpulling"                          // the Local queue's volume, or an emptyDir: the data of the producer's runtime, out of the app's reach
	StateDir     = "/var/lib/workpulling-worker"                   // emptyDir of a worker's sidecar: what outlives its process, and not its pod
	RunningFile  = StateDir + "/running"                           // the handlers in progress
	QueueDir     = "/etc/workpulling/queue"                        // Secret volume of a PostgreSQL queue, in the producer's runtime only
	RunDir       = "/var/run/workpulling"                          // emptyDir shared with the app
	DrainSocket  = RunDir + "/drain.sock"                          // HTTP over a Unix socket, for prestop
	IntakeSocket = RunDir + "/intake.sock"                         // HTTP intake over a Unix socket for the app beside a producer sidecar; no token needed inside the pod
	// ProducerSocket is gRPC over a Unix socket for the app beside a producer sidecar: workpulling.v1, producer endpoints alone.
	ProducerSocket = RunDir + "/producer.sock"
	WorkerSocket   = RunDir + "/worker.sock" // gRPC of workpulling.app.v1 over a Unix socket, for a worker's app
	BinDir         = "/opt/workpulling/bin"  // emptyDir filled by the init container
	PrestopBin     = BinDir + "/prestop"
)

// Names of containers and volumes that the operator adds to a pod; templates may not use the prefix.
const (
	ReservedPrefix   = "workpulling-"
	ContainerSidecar = "workpulling-sidecar" // native sidecar: init container with restartPolicy Always
	ContainerInstall = "workpulling-install" // init container that copies prestop
	ContainerGateway = "workpulling-gateway" // the only container of a producer without a template
	VolumeData       = "workpulling-data"
)

// Environment of a sidecar, all from the downward API.
const (
	EnvPodName      = "POD_NAME"
	EnvPodUID       = "POD_UID"
	EnvPodNamespace = "POD_NAMESPACE"
	EnvPodIP        = "POD_IP"
	EnvNodeName     = "NODE_NAME"
)

// EnvSocket tells an app where the Unix socket is that its sidecar serves gRPC on.
const EnvSocket = "WORKPULLING_SOCKET"

// Identity.
const (
	// TokenAudience is the only audience whose tokens the runtime accepts.
	TokenAudience = "workpulling.dev"
	// OperatorCommonName is the subject of the client certificate that the operator presents to WorkerControl.
	OperatorCommonName = "workpulling-operator"
)

// ProducerName names the StatefulSet, headless Service, ServiceAccount, Role and ConfigMap of a flow, in its namespace.
func ProducerName(flow string) string { return flow + "-producer" }

// IntakeName names the Service of a flow that submitters call, port 443.
func IntakeName(flow string) string { return flow + "-intake" }

// WorkerName is the first label of the host name of a pool's workers.
func WorkerName(pool string) string { return pool + "-worker" }

// WorkerConfigName is the ConfigMap of the workers of pool that pull from flows, in whatever order. A pool that changes its flows has two
// for as long as the rollout lasts, so that a live document never moves a running worker to another flow. No name has a dot in it, so that
// the name for several flows, which is made of their hash, is never that of one.
func WorkerConfigName(pool string, flows ...string) string {
	if len(flows) == 1 {
		return WorkerName(pool) + "." + flows[0]
	}
	sorted := slices.Sorted(slices.Values(flows))
	return WorkerName(pool) + "." + Hash([]byte(strings.Join(sorted, "."))) + ".flows"
}

// TLSSecretName is the Secret with the server keys of a namespace. Its name is the same everywhere, so that the operator's role can
// name the only Secrets it may read. The keys of a producer are ProducerName + suffix, those of a pool's workers WorkerName + suffix;
// a pod mounts its own pair alone, as tls.crt and tls.key in TLSDir.
const (
	TLSSecretName = "workpulling-tls"
	TLSCertSuffix = ".crt"
	TLSKeySuffix  = ".key"
)

// CAConfigMapName is the ConfigMap with ca.crt in every namespace that has a flow or pool. OperatorCAKey is in it besides: what verifies the
// operator itself, and no server.
const (
	CAConfigMapName = "workpulling-ca"
	OperatorCAKey   = "operator-ca.crt"
)

// ProducerHost is the server name that workers verify; ProducerAddress is where they dial.
func ProducerHost(flow, namespace string) string {
	return ProducerName(flow) + "." + namespace + ".svc"
}

// WorkerHost is the server name in the certificate of a pool's workers. The operator dials the pod's IP and verifies this name.
func WorkerHost(pool, namespace string) string {
	return WorkerName(pool) + "." + namespace + ".pool.workpulling.dev"
}
