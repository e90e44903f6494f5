package telemetry

import "github.com/prometheus/client_golang/prometheus"

// RegisterLease registers what a worker knows of the Lease of its pod.
func RegisterLease(registry prometheus.Registerer, held func() bool, incarnations func() int32, writes, failures func() uint64) {
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "workpulling_worker_lease_held",
			Help: "1 while this process holds the Lease of its pod, as far as it knows.",
		}, func() float64 { return flag(held()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "workpulling_worker_lease_incarnations",
			Help: "Processes of this pod that have held its Lease, this one included.",
		}, func() float64 { return float64(incarnations()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "workpulling_worker_lease_writes_total",
			Help: "Times that the Lease was made, acquired or renewed.",
		}, func() float64 { return float64(writes()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "workpulling_worker_lease_failures_total",
			Help: "Times that the API server did not answer about the Lease, or refused; nothing else depends on it.",
		}, func() float64 { return float64(failures()) }),
	)
}
