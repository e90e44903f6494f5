package telemetry

import "github.com/prometheus/client_golang/prometheus"

// neighboursCollector collects what became of callers without a token.
type neighboursCollector struct {
	trusted           func() bool
	outcomes          func() map[string]uint64
	switched, callers *prometheus.Desc
}

// RegisterNeighbours registers whether an intake trusts its namespace, and what became of the callers that it judged by their address.
func RegisterNeighbours(registry prometheus.Registerer, trusted func() bool, outcomes func() map[string]uint64) {
	registry.MustRegister(neighboursCollector{
		trusted: trusted, outcomes: outcomes,
		switched: prometheus.NewDesc("workpulling_intake_trusts_namespace", "1 while pods of the flow's namespace may submit without a token.", nil, nil),
		callers: prometheus.NewDesc("workpulling_intake_tokenless_callers_total",
			"Requests without a token that were judged by their address, by outcome: admitted, or the reason of the refusal.", []string{"outcome"}, nil),
	})
}

// Describe implements prometheus.Collector.
func (c neighboursCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.switched
	out <- c.callers
}

// Collect implements prometheus.Collector.
func (c neighboursCollector) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(c.switched, prometheus.GaugeValue, flag(c.trusted()))
	for outcome, n := range c.outcomes() {
		out <- prometheus.MustNewConstMetric(c.callers, prometheus.CounterValue, float64(n), outcome)
	}
}
