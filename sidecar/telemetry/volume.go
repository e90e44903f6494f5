package telemetry

import "github.com/prometheus/client_golang/prometheus"

// RegisterVolume registers whether another process keeps this producer out of the volume of its queue.
func RegisterVolume(registry prometheus.Registerer, locked func() bool) {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "workpulling_flow_queue_locked",
		Help: "1 while this producer waits for the volume of a Local queue because another process holds its lock.",
	}, func() float64 { return flag(locked()) }))
}
