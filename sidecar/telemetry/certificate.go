package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/workpulling/workpulling/runtime/transport"
)

// Certificate is what a sidecar serves with, such as a transport.Certificate.
type Certificate interface {
	// Err is why the newest files cannot be used.
	Err() error
	Expires() time.Time
	Failures() uint64
}

// RegisterCertificate registers gauges about the certificate that is served and the CA bundle that is trusted. Files that cannot be used
// end in an outage when the older pair that serves meanwhile expires.
func RegisterCertificate(registry prometheus.Registerer, certificate Certificate, bundle func() (transport.Bundle, error)) {
	trusted := func() transport.Bundle {
		b, err := bundle()
		if err != nil {
			return transport.Bundle{} // nothing is trusted now
		}
		return b
	}
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "workpulling_certificate_stale",
		Help: "1 while the newest certificate files cannot be used and the pair before them serves.",
	}, func() float64 { return flag(certificate.Err() != nil) }), prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "workpulling_certificate_reload_failures_total",
		Help: "How often the newest certificate files could not be used when they were looked at.",
	}, func() float64 { return float64(certificate.Failures()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "workpulling_certificate_expiry_timestamp_seconds",
		Help: "When the certificate that is served expires.",
	}, func() float64 { return seconds(certificate.Expires()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "workpulling_ca_bundle_certificates",
		Help: "Authorities in the CA bundle; 0 where it cannot be read. During a rotation there are 2.",
	}, func() float64 { return float64(trusted().Certificates) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "workpulling_ca_bundle_expiry_timestamp_seconds",
		Help: "When the last authority in the CA bundle expires; 0 where it cannot be read.",
	}, func() float64 { return seconds(trusted().Expires) }))
}

func seconds(moment time.Time) float64 {
	if moment.IsZero() {
		return 0
	}
	return float64(moment.Unix())
}
