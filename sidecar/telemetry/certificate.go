package telemetry

import "github.com/prometheus/client_golang/prometheus"

// RegisterCertificate registers a gauge that tells whether the newest certificate files could not be used, which ends in an outage
// when the older pair that serves meanwhile expires. failure is transport.Certificate.Err.
func RegisterCertificate(registry prometheus.Registerer, failure func() error) {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "workpulling_certificate_stale",
		Help: "1 while the newest certificate files cannot be used and the pair before them serves.",
	}, func() float64 { return flag(failure() != nil) }))
}
