package telemetry

import "github.com/prometheus/client_golang/prometheus"

// RegisterMember registers what a producer is among those of its flow: whether it has the queue, and how often it has lost it.
func RegisterMember(registry prometheus.Registerer, active func() bool, fenced func() uint64) {
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "workpulling_flow_member_active",
			Help: "1 while this producer has the queue of its flow, 0 while it stands by.",
		}, func() float64 { return flag(active()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "workpulling_flow_member_fenced_total",
			Help: "How often another producer of the flow has taken the queue from this one.",
		}, func() float64 { return float64(fenced()) }),
	)
}
