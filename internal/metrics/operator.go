package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/certs"
	"github.com/workpulling/workpulling/runtime/transport"
)

// Operator holds the metrics of one operator.
type Operator struct {
	workers      *prometheus.GaugeVec
	workerSteps  *prometheus.CounterVec
	flowJobs     *prometheus.GaugeVec
	flowReports  *prometheus.GaugeVec
	statusWrites *prometheus.CounterVec
	certificates *prometheus.GaugeVec
}

// Authority is the operator's certificate authority.
type Authority interface {
	// Expires is when the one that signs now ends.
	Expires() time.Time
	// Phase is where its rotation is.
	Phase() certs.Phase
}

// NewOperator registers the metrics.
func NewOperator(registry crmetrics.RegistererGatherer, authority Authority) *Operator {
	m := &Operator{
		workers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "workpulling_operator_pool_workers", Help: "Workers of a pool by state: desired, live, ready, updated, draining.",
		}, []string{"namespace", "pool", "state"}),
		workerSteps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "workpulling_operator_worker_steps_total", Help: "Steps taken for workers of a pool: Create, Remove, Release, Drain, Delete, Expire, Undrain and others.",
		}, []string{"namespace", "pool", "step"}),
		flowJobs: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "workpulling_operator_flow_jobs", Help: "Jobs of a flow, as last reported, by state: backlog, in_flight, dead_letter.",
		}, []string{"namespace", "flow", "state"}),
		flowReports: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "workpulling_operator_flow_connected", Help: "1 where the producer of a flow reports to the operator.",
		}, []string{"namespace", "flow"}),
		statusWrites: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "workpulling_operator_status_writes_total", Help: "Writes of a status, by kind. At rest it does not move.",
		}, []string{"kind"}),
		certificates: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "workpulling_operator_certificate_expiry_timestamp_seconds",
			Help: "When the certificate that the producer of a flow, or the workers of a pool, serve with expires. It is renewed at half of its life.",
		}, []string{"namespace", "kind", "name"}),
	}
	registry.MustRegister(m.workers, m.workerSteps, m.flowJobs, m.flowReports, m.statusWrites, m.certificates)
	registerAuthority(registry, authority)
	return m
}

func registerAuthority(registry prometheus.Registerer, authority Authority) {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "workpulling_operator_ca_expiry_timestamp_seconds", Help: "When the certificate authority that signs now expires.",
	}, func() float64 { return float64(authority.Expires().Unix()) }))
	for _, phase := range certs.Phases() {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "workpulling_operator_ca_rotation", ConstLabels: prometheus.Labels{"phase": string(phase)},
			Help: "1 for the phase that the rotation of the certificate authority is in: None, Announced or Replacing.",
		}, func() float64 {
			if authority.Phase() == phase {
				return 1
			}
			return 0
		}))
	}
}

// FlowCertificate sets when the certificate of a flow's producer expires.
func (m *Operator) FlowCertificate(namespace, flow string, expires time.Time) {
	m.certificates.WithLabelValues(namespace, v1alpha1.KindWorkPullingFlow, flow).Set(float64(expires.Unix()))
}

// PoolCertificate sets when the certificate of a pool's workers expires.
func (m *Operator) PoolCertificate(namespace, pool string, expires time.Time) {
	m.certificates.WithLabelValues(namespace, v1alpha1.KindWorkerPool, pool).Set(float64(expires.Unix()))
}

// PoolWorkers are the counts of one pool.
type PoolWorkers struct{ Desired, Live, Ready, Updated, Draining int }

// Pool sets the counts of a pool.
func (m *Operator) Pool(namespace, pool string, w PoolWorkers) {
	for state, value := range map[string]int{
		"desired": w.Desired, "live": w.Live, "ready": w.Ready, "updated": w.Updated, "draining": w.Draining,
	} {
		m.workers.WithLabelValues(namespace, pool, state).Set(float64(value))
	}
}

// Step counts one step for a worker.
func (m *Operator) Step(namespace, pool, step string) {
	m.workerSteps.WithLabelValues(namespace, pool, step).Inc()
}

// ForgetPool removes the series of a pool.
func (m *Operator) ForgetPool(namespace, pool string) {
	labels := prometheus.Labels{"namespace": namespace, "pool": pool}
	m.workers.DeletePartialMatch(labels)
	m.workerSteps.DeletePartialMatch(labels)
	m.certificates.DeleteLabelValues(namespace, v1alpha1.KindWorkerPool, pool)
}

// Flow sets the numbers of a flow that reports; without a report only the connection is known.
func (m *Operator) Flow(namespace, flow string, connected bool, backlog, inFlight, deadLetters int64) {
	if !connected {
		m.flowJobs.DeletePartialMatch(prometheus.Labels{"namespace": namespace, "flow": flow})
		m.flowReports.WithLabelValues(namespace, flow).Set(0)
		return
	}
	m.flowReports.WithLabelValues(namespace, flow).Set(1)
	for state, value := range map[string]int64{"backlog": backlog, "in_flight": inFlight, "dead_letter": deadLetters} {
		m.flowJobs.WithLabelValues(namespace, flow, state).Set(float64(value))
	}
}

// ForgetFlow removes the series of a flow.
func (m *Operator) ForgetFlow(namespace, flow string) {
	labels := prometheus.Labels{"namespace": namespace, "flow": flow}
	m.flowJobs.DeletePartialMatch(labels)
	m.flowReports.DeletePartialMatch(labels)
	m.certificates.DeleteLabelValues(namespace, v1alpha1.KindWorkPullingFlow, flow)
}

// StatusWrite counts one write of a status.
func (m *Operator) StatusWrite(kind string) { m.statusWrites.WithLabelValues(kind).Inc() }

// RegisterRefusedReports registers how many callers the port for reports has turned away, by reason.
func RegisterRefusedReports(registry prometheus.Registerer, counts func() map[transport.Label]uint64) {
	registry.MustRegister(refusedReports{counts, prometheus.NewDesc("workpulling_operator_refused_reports_total",
		"Callers that the port for reports has turned away, by reason.", []string{"reason"}, nil)})
}

// refusedReports collects them at each scrape.
type refusedReports struct {
	counts func() map[transport.Label]uint64
	desc   *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (r refusedReports) Describe(out chan<- *prometheus.Desc) { out <- r.desc }

// Collect implements prometheus.Collector.
func (r refusedReports) Collect(out chan<- prometheus.Metric) {
	for label, n := range r.counts() {
		out <- prometheus.MustNewConstMetric(r.desc, prometheus.CounterValue, float64(n), string(label))
	}
}
