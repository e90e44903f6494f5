package harness

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

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

// PodMetrics reads what the runtime in a pod exposes.
func (k *Kubectl) PodMetrics(ctx context.Context, namespace, pod string) (Metrics, error) {
	text, err := k.Proxy(ctx, namespace, "pods/"+pod+":9441", "/metrics")
	if err != nil {
		return nil, err
	}
	return ReadMetrics(strings.NewReader(text))
}

// Total adds up the samples of one gauge or counter that have the labels, given as pairs of name and value. It is 0 where there are none.
func (m Metrics) Total(name string, labels ...string) (sum float64) {
	for _, metric := range m[name].GetMetric() {
		if has(metric, labels) {
			sum += metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + metric.GetUntyped().GetValue()
		}
	}
	return sum
}

func has(metric *dto.Metric, labels []string) bool {
	found := map[string]string{}
	for _, pair := range metric.GetLabel() {
		found[pair.GetName()] = pair.GetValue()
	}
	for pair := range slices.Chunk(labels, 2) {
		if found[pair[0]] != pair[1] {
			return false
		}
	}
	return true
}

// MetricsAt reads what the runtime of the pod with the address exposes, without the API server.
func MetricsAt(ctx context.Context, podIP string) (Metrics, error) {
	text, err := direct(ctx, net.JoinHostPort(podIP, "9441"), "/metrics")
	if err != nil {
		return nil, err
	}
	return ReadMetrics(strings.NewReader(text))
}
