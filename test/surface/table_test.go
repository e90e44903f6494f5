package surface

import (
	"slices"
	"strings"
	"testing"
)

// listener is a port or socket of a part.
type listener string

const (
	operatorReports listener = "operator, reports (9443, gRPC over TLS)"
	operatorMetrics listener = "operator, metrics (8443, HTTPS)"
	operatorProbes  listener = "operator, probes (8081, HTTP)"
	producerStreams listener = "producer, workers and producers (9443, gRPC over TLS)"
	producerIntake  listener = "producer, intake (9444, HTTPS)"
	producerHealth  listener = "producer, probes (9440, HTTP)"
	producerMetrics listener = "producer, metrics (9441, HTTP)"
	intakeSocket    listener = "producer, intake.sock (HTTP, inside the pod)"
	producerSocket  listener = "producer, producer.sock (gRPC, inside the pod)"
	workerControl   listener = "worker, control (9443, gRPC over TLS with client certificates)"
	workerHealth    listener = "worker, probes (9440, HTTP)"
	workerMetrics   listener = "worker, metrics (9441, HTTP)"
	drainSocket     listener = "worker, drain.sock (HTTP, inside the pod)"
	appSocket       listener = "worker, worker.sock (gRPC, inside the pod)"
)

// Outcomes besides the labels of refusals, which are those of runtime/transport.
const (
	served   = "served"               // it got past every check of who calls
	noTLS    = "no-tls"               // the port speaks TLS alone
	required = "certificate-required" // in the handshake
	badCert  = "bad-certificate"      // in the handshake
	denied   = "denied"               // this way in does not lead there, whoever calls
	absent   = "absent"               // nobody serves that here
)

// row is what becomes of every credential on one route or method of a listener. An outcome alone stands for all columns.
type row struct {
	at       listener
	what     string // "POST /path", or "package.Service/Method"
	outcomes string // one word for each of columns
}

// Rows of the intake that are alike.
const (
	//           none          plain  otherCA       serverCert    operatorCert  garbage       ownAudience            otherAudience  otherNamespace stranger submitter keeper workerToken member   neighbour     outsider        neighbourForged
	forApps = "token-missing no-tls token-missing token-missing token-missing token-invalid token-default-audience token-audience forbidden forbidden served    served forbidden   served   served        address-unknown token-audience"
	forKeep = "token-missing no-tls token-missing token-missing token-missing token-invalid token-default-audience token-audience forbidden forbidden forbidden served forbidden   forbidden token-missing token-missing   token-audience"
	// Of a stream, which knows no neighbours.
	forProducers = "token-missing no-tls token-missing token-missing token-missing token-invalid token-default-audience token-audience forbidden forbidden served served forbidden served token-missing token-missing token-audience"
	forWorkers   = "token-missing no-tls token-missing token-missing token-missing token-invalid token-default-audience token-audience serviceaccount pod-foreign pod-unknown pod-unknown served pod-foreign token-missing token-missing token-audience"
	forOperator  = "certificate-required no-tls bad-certificate bad-certificate served certificate-required certificate-required certificate-required certificate-required certificate-required certificate-required certificate-required certificate-required certificate-required certificate-required certificate-required certificate-required"
	forReports   = "token-missing no-tls token-missing token-missing token-missing token-invalid token-audience token-audience pod-unknown pod-foreign pod-unknown pod-unknown pod-foreign served token-missing token-missing token-audience"
)

// The table. What a listener does not serve is absent, and needs no row: TestTheTable tries every method of every service on every gRPC listener, and every
// verb on every path of every HTTP listener.
var table = []row{
	{operatorReports, "workpulling.v1.FlowStatsCollector/Report", forReports},

	{producerStreams, "workpulling.v1.WorkPulling/Pull", forWorkers},
	{producerStreams, "workpulling.v1.WorkPulling/Produce", forProducers},
	// Which pod this is, and whether it owns the queue, is no secret: a standby asks while the API server is away.
	{producerStreams, "workpulling.v1.ProducerMember/Look", "served no-tls served served served served served served served served served served served served served served served"},

	{producerIntake, "POST /v1/flows/{flow}/jobs", forApps},
	{producerIntake, "GET /v1/flows/{flow}/jobs/{id}", forApps},
	{producerIntake, "GET /v1/flows/{flow}/dead-letters", forKeep},
	{producerIntake, "GET /v1/flows/{flow}/dead-letters/{sequence}", forKeep},
	{producerIntake, "GET /v1/flows/{flow}/dead-letters/{sequence}/payload", forKeep},
	{producerIntake, "POST /v1/flows/{flow}/dead-letters/redrive", forKeep},
	{producerIntake, "POST /v1/flows/{flow}/dead-letters/drop", forKeep},
	{producerIntake, "POST /v1/flows/{flow}/dead-letters/{sequence}/redrive", forKeep},
	{producerIntake, "DELETE /v1/flows/{flow}/dead-letters/{sequence}", forKeep},
	{producerIntake, "GET /v1/flows/{flow}/orphans", forKeep},
	{producerIntake, "POST /v1/flows/{flow}/orphans/{sequence}/accept", forKeep},
	{producerIntake, "GET /v1/flows/{flow}/audit", forKeep},

	{intakeSocket, "POST /v1/flows/{flow}/jobs", served},
	{intakeSocket, "GET /v1/flows/{flow}/jobs/{id}", served},
	{intakeSocket, "GET /v1/flows/{flow}/dead-letters", "forbidden"},
	{intakeSocket, "GET /v1/flows/{flow}/dead-letters/{sequence}", "forbidden"},
	{intakeSocket, "GET /v1/flows/{flow}/dead-letters/{sequence}/payload", "forbidden"},
	{intakeSocket, "POST /v1/flows/{flow}/dead-letters/redrive", "forbidden"},
	{intakeSocket, "POST /v1/flows/{flow}/dead-letters/drop", "forbidden"},
	{intakeSocket, "POST /v1/flows/{flow}/dead-letters/{sequence}/redrive", "forbidden"},
	{intakeSocket, "DELETE /v1/flows/{flow}/dead-letters/{sequence}", "forbidden"},
	{intakeSocket, "GET /v1/flows/{flow}/orphans", "forbidden"},
	{intakeSocket, "POST /v1/flows/{flow}/orphans/{sequence}/accept", "forbidden"},
	{intakeSocket, "GET /v1/flows/{flow}/audit", "forbidden"},

	{producerSocket, "workpulling.v1.WorkPulling/Produce", served},
	{producerSocket, "workpulling.v1.WorkPulling/Pull", denied},

	{workerControl, "workpulling.v1.WorkerControl/GetStatus", forOperator},
	{workerControl, "workpulling.v1.WorkerControl/CordonIfIdle", forOperator},
	{workerControl, "workpulling.v1.WorkerControl/StartDrain", forOperator},
	{workerControl, "workpulling.v1.WorkerControl/Uncordon", forOperator},

	{drainSocket, "POST /drain", served},
	{drainSocket, "GET /status", served},
	{appSocket, "workpulling.app.v1.Worker/Work", served},

	// Kubelet and Prometheus present nothing. What they read names no payload.
	{producerHealth, "GET /startupz", served}, {producerHealth, "GET /readyz", served}, {producerHealth, "GET /healthz", served},
	{workerHealth, "GET /startupz", served}, {workerHealth, "GET /readyz", served}, {workerHealth, "GET /healthz", served},
	{producerMetrics, "GET /metrics", served}, {workerMetrics, "GET /metrics", served},
}

// outcome is that of a column.
func (r row) outcome(t *testing.T, c credential) string {
	t.Helper()
	words := strings.Fields(r.outcomes)
	if len(words) == 1 {
		return words[0]
	}
	if len(words) != len(columns) {
		t.Fatalf("%s has %d outcomes for %d columns", r.what, len(words), len(columns))
	}
	return words[slices.Index(columns, c)]
}

// find is the row of a route or method, nil where it is absent.
func find(at listener, what string) *row {
	if i := slices.IndexFunc(table, func(r row) bool { return r.at == at && r.what == what }); i >= 0 {
		return &table[i]
	}
	return nil
}
