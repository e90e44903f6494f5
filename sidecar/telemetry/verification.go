package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Verification is what a producer's identity checks tell.
type Verification struct {
	// Offline and Reviewed count tokens by the way they were verified, BadRecords files of an earlier process that were no good.
	Offline, Reviewed, BadRecords uint64
	// KeysAge is how long ago the cluster's keys were read, if they were.
	KeysAge  time.Duration
	KeysRead bool
}

// verificationCollector collects them at each scrape.
type verificationCollector struct {
	read                   func() Verification
	verified, records, age *prometheus.Desc
}

// RegisterVerification registers the figures of a producer's identity checks.
func RegisterVerification(registry prometheus.Registerer, read func() Verification) {
	registry.MustRegister(verificationCollector{
		read:     read,
		verified: prometheus.NewDesc("workpulling_tokens_verified_total", "Tokens verified, by way: offline by signature, or review by the API server.", []string{"way"}, nil),
		records:  prometheus.NewDesc("workpulling_identity_records_unusable_total", "Files with what an earlier process knew of keys and pods that could not be used.", nil, nil),
		age:      prometheus.NewDesc("workpulling_token_keys_age_seconds", "How long ago the public keys of the cluster were read; absent where they never were.", nil, nil),
	})
}

// Describe implements prometheus.Collector.
func (c verificationCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.verified
	out <- c.records
	out <- c.age
}

// Collect implements prometheus.Collector.
func (c verificationCollector) Collect(out chan<- prometheus.Metric) {
	v := c.read()
	out <- prometheus.MustNewConstMetric(c.verified, prometheus.CounterValue, float64(v.Offline), "offline")
	out <- prometheus.MustNewConstMetric(c.verified, prometheus.CounterValue, float64(v.Reviewed), "review")
	out <- prometheus.MustNewConstMetric(c.records, prometheus.CounterValue, float64(v.BadRecords))
	if v.KeysRead {
		out <- prometheus.MustNewConstMetric(c.age, prometheus.GaugeValue, v.KeysAge.Seconds())
	}
}
