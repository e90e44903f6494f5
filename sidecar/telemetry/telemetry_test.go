package telemetry_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/sidecar/telemetry"
)

func producer(stats endpoint.ProducerStats, err error) *telemetry.Producer {
	return telemetry.NewProducer(func(context.Context) (endpoint.ProducerStats, error) { return stats, err })
}

func TestProducerFigures(t *testing.T) {
	c := producer(endpoint.ProducerStats{
		Stats: delivery.Stats{
			Phase: delivery.PhaseRunning, BacklogJobs: 3, DelayedJobs: 2, Accepted: 7, Dropped: map[string]uint64{"stale": 4},
		},
		QueueAvailable: true, Refused: map[transport.Label]uint64{transport.LabelForbidden: 5},
	}, nil)
	want := `
# HELP workpulling_flow_accepted_jobs_total Jobs stored.
# TYPE workpulling_flow_accepted_jobs_total counter
workpulling_flow_accepted_jobs_total 7
# HELP workpulling_flow_backlog_jobs Stored jobs that no worker holds, those in a back-off included.
# TYPE workpulling_flow_backlog_jobs gauge
workpulling_flow_backlog_jobs 5
# HELP workpulling_flow_dropped_messages_total Messages refused or ignored, by reason.
# TYPE workpulling_flow_dropped_messages_total counter
workpulling_flow_dropped_messages_total{reason="stale"} 4
# HELP workpulling_flow_phase 1 for the phase that the controller is in: Loading, Running or Failed.
# TYPE workpulling_flow_phase gauge
workpulling_flow_phase{phase="Failed"} 0
workpulling_flow_phase{phase="Loading"} 0
workpulling_flow_phase{phase="Running"} 1
# HELP workpulling_flow_queue_available 1 while the queue works.
# TYPE workpulling_flow_queue_available gauge
workpulling_flow_queue_available 1
# HELP workpulling_flow_refused_identities_total Peers and callers refused, by reason.
# TYPE workpulling_flow_refused_identities_total counter
workpulling_flow_refused_identities_total{reason="forbidden"} 5
`
	names := []string{
		"workpulling_flow_accepted_jobs_total", "workpulling_flow_backlog_jobs", "workpulling_flow_dropped_messages_total",
		"workpulling_flow_phase", "workpulling_flow_queue_available", "workpulling_flow_refused_identities_total",
	}
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

// A controller that does not answer leaves its figures out instead of making up zeros.
func TestNoFiguresWithoutAnAnswer(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(producer(endpoint.ProducerStats{}, errors.New("busy")))
	families, err := registry.Gather()
	if err != nil || len(families) != 0 {
		t.Errorf("%d families, %v", len(families), err)
	}
}

func TestWorkerFigures(t *testing.T) {
	c := telemetry.NewWorker(func() delivery.ConsumerStatus {
		return delivery.ConsumerStatus{
			Cordoned: true, Running: 2, Dropped: map[string]uint64{"stale": 6, "foreign": 1},
			Flows: []delivery.ConsumerStatus{
				{Flow: "orders", Registered: true, Running: 2, Confirmed: 5, Nacked: 1, HandedBack: 3, Abandoned: 4, Dropped: map[string]uint64{"stale": 6}},
				{Flow: "returns", Confirmed: 7},
			},
		}
	})
	want := `
# HELP workpulling_worker_draining 1 while the worker is cordoned or drains.
# TYPE workpulling_worker_draining gauge
workpulling_worker_draining 1
# HELP workpulling_worker_dropped_messages_total Messages refused or ignored, by reason; without a flow where they belong to none.
# TYPE workpulling_worker_dropped_messages_total counter
workpulling_worker_dropped_messages_total{flow="",reason="foreign"} 1
workpulling_worker_dropped_messages_total{flow="orders",reason="stale"} 6
# HELP workpulling_worker_registered 1 while the worker has a binding to the flow.
# TYPE workpulling_worker_registered gauge
workpulling_worker_registered{flow="orders"} 1
workpulling_worker_registered{flow="returns"} 0
# HELP workpulling_worker_settled_jobs_total Deliveries that ended, by outcome.
# TYPE workpulling_worker_settled_jobs_total counter
workpulling_worker_settled_jobs_total{flow="orders",outcome="abandoned"} 4
workpulling_worker_settled_jobs_total{flow="orders",outcome="confirmed"} 5
workpulling_worker_settled_jobs_total{flow="orders",outcome="handed-back"} 3
workpulling_worker_settled_jobs_total{flow="orders",outcome="nacked"} 1
workpulling_worker_settled_jobs_total{flow="returns",outcome="abandoned"} 0
workpulling_worker_settled_jobs_total{flow="returns",outcome="confirmed"} 7
workpulling_worker_settled_jobs_total{flow="returns",outcome="handed-back"} 0
workpulling_worker_settled_jobs_total{flow="returns",outcome="nacked"} 0
`
	names := []string{
		"workpulling_worker_draining", "workpulling_worker_dropped_messages_total", "workpulling_worker_registered",
		"workpulling_worker_settled_jobs_total",
	}
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

func TestAStaleCertificateShows(t *testing.T) {
	registry := prometheus.NewRegistry()
	var failure error
	telemetry.RegisterCertificate(registry, func() error { return failure })
	for _, c := range []struct {
		failure error
		want    string
	}{{nil, "0"}, {errors.New("the key does not fit"), "1"}, {nil, "0"}} {
		failure = c.failure
		want := `
# HELP workpulling_certificate_stale 1 while the newest certificate files cannot be used and the pair before them serves.
# TYPE workpulling_certificate_stale gauge
workpulling_certificate_stale ` + c.want + "\n"
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
	}
}

func TestEveryMetricIsWellNamed(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(producer(endpoint.ProducerStats{
		Stats: delivery.Stats{Dropped: map[string]uint64{"stale": 1}}, Refused: map[transport.Label]uint64{transport.LabelForbidden: 1},
	}, nil))
	registry.MustRegister(telemetry.NewWorker(func() delivery.ConsumerStatus {
		return delivery.ConsumerStatus{Flows: []delivery.ConsumerStatus{{Flow: "orders"}}}
	}))
	telemetry.NewAnswers(registry).Count(201)
	telemetry.NewHandlerSeconds(registry).Observe(protocol.Confirmed, 0.5)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}
