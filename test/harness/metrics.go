package harness

import (
	"fmt"
	"io"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics are what a process exposes, by name.
type Metrics map[string]*dto.MetricFamily

// ReadMetrics parses the text format.
func ReadMetrics(text io.Reader) (Metrics, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	return families, nil
}

// Sum adds up the samples of one gauge or counter; found is false where the process has no such metric.
func (m Metrics) Sum(name string) (sum float64, found bool) {
	family, found := m[name]
	for _, metric := range family.GetMetric() {
		sum += metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + metric.GetUntyped().GetValue()
	}
	return sum, found
}
