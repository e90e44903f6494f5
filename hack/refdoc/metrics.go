package main

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/workpulling/workpulling/internal/certs"
	"github.com/workpulling/workpulling/internal/metrics"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/sidecar/telemetry"
)

const metricsIntro = `# Metrics

Generated from the code by ` + "`make docs`" + `. Each process also exports what the Go client library says of its runtime (` + "`go_*`, `process_*`" + `),
and the operator what controller-runtime says of its controllers (` + "`controller_runtime_*`, `workqueue_*`, `rest_client_*`" + `).
`

// exporter is one process with its metrics, each of them with a sample.
type exporter struct {
	title, where string
	register     func(registry)
}

func exporters() []exporter {
	return []exporter{
		{"Producer", inPod("producer"), registerProducer},
		{"Worker", inPod("worker"), registerWorker},
		{"Operator", "The operator's metrics Service, HTTPS, for those who may `get` the URL `/metrics`.", registerOperator},
	}
}

func inPod(kind string) string {
	return fmt.Sprintf("Port %d of a %s pod, plain HTTP, path `/metrics`.", runtimeconfig.PortMetrics, kind)
}

func registerProducer(r registry) {
	r.MustRegister(telemetry.NewProducer(func(context.Context) (endpoint.ProducerStats, error) {
		return endpoint.ProducerStats{
			Stats: delivery.Stats{Dropped: map[string]uint64{"a": 1}, Bindings: make([]delivery.BindingStats, 1)}, Refused: map[transport.Label]uint64{transport.LabelForbidden: 1},
		}, nil
	}))
	telemetry.NewAnswers(r).Count(201)
	telemetry.RegisterMember(r, func() bool { return true }, func() uint64 { return 0 })
	telemetry.RegisterVolume(r, func() bool { return false })
	telemetry.RegisterCertificate(r, served{}, func() (transport.Bundle, error) { return transport.Bundle{}, nil })
	telemetry.RegisterNeighbours(r, func() bool { return true }, func() map[string]uint64 { return map[string]uint64{"admitted": 1} })
	telemetry.RegisterVerification(r, func() telemetry.Verification { return telemetry.Verification{KeysRead: true} })
}

func registerWorker(r registry) {
	r.MustRegister(telemetry.NewWorker(func() delivery.ConsumerStatus {
		return delivery.ConsumerStatus{
			Dropped: map[string]uint64{"a": 1}, Flows: []delivery.ConsumerStatus{{Flow: "flow", Dropped: map[string]uint64{"a": 1}}},
		}
	}))
	telemetry.RegisterAppStreams(r, func() int { return 1 })
	telemetry.RegisterLease(r, func() bool { return true }, func() int32 { return 1 }, func() uint64 { return 1 }, func() uint64 { return 0 })
	telemetry.NewHandlerSeconds(r).Observe(protocol.Confirmed, 1)
	telemetry.RegisterCertificate(r, served{}, func() (transport.Bundle, error) { return transport.Bundle{}, nil })
}

func registerOperator(r registry) {
	metrics.RegisterRefusedReports(r, func() map[transport.Label]uint64 { return map[transport.Label]uint64{transport.LabelTokenMissing: 1} })
	m := metrics.NewOperator(r, authority{})
	m.FlowCertificate("namespace", "flow", time.Unix(0, 0))
	m.Pool("namespace", "pool", metrics.PoolWorkers{})
	m.Step("namespace", "pool", "Create")
	m.Flow("namespace", "flow", true, 0, 0, 0)
	m.StatusWrite("WorkerPool")
}

type served struct{}

func (served) Err() error         { return nil }
func (served) Expires() time.Time { return time.Unix(0, 0) }
func (served) Failures() uint64   { return 0 }

type authority struct{}

func (authority) Expires() time.Time { return time.Unix(0, 0) }
func (authority) Phase() certs.Phase { return certs.PhaseNone }

// registry remembers the names of what was registered, so that a metric without a sample is found.
type registry struct {
	*prometheus.Registry
	described map[string]bool
}

func newRegistry() registry {
	return registry{Registry: prometheus.NewRegistry(), described: map[string]bool{}}
}

var describedName = regexp.MustCompile(`fqName: "([^"]+)"`)

// MustRegister implements prometheus.Registerer.
func (r registry) MustRegister(collectors ...prometheus.Collector) {
	for _, collector := range collectors {
		descriptions := make(chan *prometheus.Desc)
		go func() {
			defer close(descriptions)
			collector.Describe(descriptions)
		}()
		for description := range descriptions {
			r.described[describedName.FindStringSubmatch(description.String())[1]] = true
		}
	}
	r.Registry.MustRegister(collectors...)
}

// families are the metrics of one process by name.
func (e exporter) families() ([]*dto.MetricFamily, error) {
	r := newRegistry()
	e.register(r)
	families, err := r.Gather()
	if err != nil {
		return nil, fmt.Errorf("gathering the metrics of the %s: %w", e.title, err)
	}
	for _, family := range families {
		delete(r.described, family.GetName())
	}
	if len(r.described) > 0 {
		return nil, fmt.Errorf("no sample for %s: give them one in hack/refdoc", strings.Join(slices.Sorted(maps.Keys(r.described)), ", "))
	}
	return families, nil
}

// metricsPage is a page with a table for each process.
func metricsPage() (string, error) {
	var page strings.Builder
	page.WriteString(metricsIntro)
	for _, e := range exporters() {
		families, err := e.families()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n| name | type | labels | meaning |\n|---|---|---|---|\n", e.title, e.where)
		for _, family := range families {
			fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n",
				family.GetName(), strings.ToLower(family.GetType().String()), labels(family), cell(oneLine(family.GetHelp())))
		}
	}
	page.WriteString("\n## Reasons of dropped messages\n\nValues of the label `reason` of the counters `…_dropped_messages_total`, a closed set.\n\n| reason | message |\n|---|---|\n")
	reasons := delivery.DropReasons()
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(&page, "| `%s` | %s |\n", reason, cell(reasons[reason]))
	}
	return page.String(), nil
}

func labels(family *dto.MetricFamily) string {
	names := make([]string, 0, 3)
	for _, label := range family.GetMetric()[0].GetLabel() {
		names = append(names, "`"+label.GetName()+"`")
	}
	return strings.Join(names, ", ")
}
