package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

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

// B-281: what the flow keeps track of, whom it keeps away, and how old things are.
func TestPolicyFigures(t *testing.T) {
	bindings := []delivery.BindingStats{
		{Worker: delivery.Worker{PodName: "a", Pool: "packers"}, InFlight: 3}, {Worker: delivery.Worker{PodName: "b", Pool: "packers"}, InFlight: 7},
		{Worker: delivery.Worker{PodName: "b", Pool: "packers"}, InFlight: 1}, // the pod before, for a moment
	}
	c := producer(endpoint.ProducerStats{
		Stats: delivery.Stats{
			TrackedWorkers: 4, TrackedStreams: 3, Epoch: 9, Bindings: bindings, Pauses: 2, AwaitedWorkers: 5, Adopted: 8, Claimed: 11,
			Paused:      []delivery.RevisionStats{{Pool: "packers", Revision: "r2"}},
			Quarantined: []delivery.QuarantineStats{{Flapping: true}, {}, {Flapping: true}},
		},
		Orphans: 6, SessionAge: 90 * time.Second, Failures: map[delivery.Stage]uint64{delivery.StageStore: 1},
	}, nil)
	want := `
# HELP workpulling_flow_adopted_jobs_total Jobs whose run went on across a restart of the producer or of the worker's sidecar, by the worker's claim.
# TYPE workpulling_flow_adopted_jobs_total counter
workpulling_flow_adopted_jobs_total 8
# HELP workpulling_flow_awaited_workers Workers that may still run jobs of before the last load, and are waited for before those go out again.
# TYPE workpulling_flow_awaited_workers gauge
workpulling_flow_awaited_workers 5
# HELP workpulling_flow_busiest_worker_in_flight_jobs Jobs that the worker with the most of them holds.
# TYPE workpulling_flow_busiest_worker_in_flight_jobs gauge
workpulling_flow_busiest_worker_in_flight_jobs 7
# HELP workpulling_flow_claimed_outcomes_total Jobs that were settled by the claim of a worker that had ended them.
# TYPE workpulling_flow_claimed_outcomes_total counter
workpulling_flow_claimed_outcomes_total 11
# HELP workpulling_flow_epoch Generation of the writer of the queue; each load issues the next one.
# TYPE workpulling_flow_epoch gauge
workpulling_flow_epoch 9
# HELP workpulling_flow_orphaned_jobs Jobs stored over an hour ago whose producer never acknowledged that.
# TYPE workpulling_flow_orphaned_jobs gauge
workpulling_flow_orphaned_jobs 6
# HELP workpulling_flow_paused_revisions Revisions of a pool that get no jobs but probes, because every job of theirs fails.
# TYPE workpulling_flow_paused_revisions gauge
workpulling_flow_paused_revisions{pool="packers"} 1
# HELP workpulling_flow_quarantined_workers Worker pods that are kept away, by cause: flapping or violation.
# TYPE workpulling_flow_quarantined_workers gauge
workpulling_flow_quarantined_workers{cause="flapping"} 2
workpulling_flow_quarantined_workers{cause="violation"} 1
# HELP workpulling_flow_revision_pauses_total How often a revision was paused.
# TYPE workpulling_flow_revision_pauses_total counter
workpulling_flow_revision_pauses_total 2
# HELP workpulling_flow_session_age_seconds Age of this controller.
# TYPE workpulling_flow_session_age_seconds gauge
workpulling_flow_session_age_seconds 90
# HELP workpulling_flow_terminal_failures_total Terminal failures of reliable delivery, by stage.
# TYPE workpulling_flow_terminal_failures_total counter
workpulling_flow_terminal_failures_total{stage="Accept"} 0
workpulling_flow_terminal_failures_total{stage="Confirm"} 0
workpulling_flow_terminal_failures_total{stage="Load"} 0
workpulling_flow_terminal_failures_total{stage="Protocol"} 0
workpulling_flow_terminal_failures_total{stage="Store"} 1
# HELP workpulling_flow_tracked_streams Streams of workers that are open.
# TYPE workpulling_flow_tracked_streams gauge
workpulling_flow_tracked_streams 3
# HELP workpulling_flow_tracked_workers Worker pods that are remembered, those without a binding included.
# TYPE workpulling_flow_tracked_workers gauge
workpulling_flow_tracked_workers 4
# HELP workpulling_flow_worker_in_flight_jobs Jobs that a worker holds; of the first 500 workers by registration.
# TYPE workpulling_flow_worker_in_flight_jobs gauge
workpulling_flow_worker_in_flight_jobs{pod="a",pool="packers"} 3
workpulling_flow_worker_in_flight_jobs{pod="b",pool="packers"} 8
`
	names := []string{"adopted_jobs_total", "awaited_workers", "claimed_outcomes_total", "busiest_worker_in_flight_jobs", "epoch", "orphaned_jobs", "paused_revisions", "quarantined_workers", "revision_pauses_total",
		"session_age_seconds", "terminal_failures_total", "tracked_streams", "tracked_workers", "worker_in_flight_jobs"}
	for i := range names {
		names[i] = "workpulling_flow_" + names[i]
	}
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

// The number of series is bounded, however many workers there are.
func TestSeriesOfWorkersAreBounded(t *testing.T) {
	many := make([]delivery.BindingStats, 2000)
	for i := range many {
		many[i] = delivery.BindingStats{Worker: delivery.Worker{PodName: fmt.Sprint("w", i), Pool: "p"}, InFlight: i}
	}
	c := producer(endpoint.ProducerStats{Stats: delivery.Stats{Bindings: many}}, nil)
	if n := testutil.CollectAndCount(c, "workpulling_flow_worker_in_flight_jobs"); n != 500 {
		t.Errorf("%d series", n)
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

// served is a certificate as a sidecar serves it.
type served struct{ failure error }

func (s *served) Err() error       { return s.failure }
func (*served) Expires() time.Time { return time.Unix(7, 0) }
func (*served) Failures() uint64   { return 3 }

func TestCertificateShows(t *testing.T) {
	registry := prometheus.NewRegistry()
	certificate := &served{}
	var noBundle error
	telemetry.RegisterCertificate(registry, certificate, func() (transport.Bundle, error) {
		return transport.Bundle{Certificates: 2, Expires: time.Unix(9, 0)}, noBundle
	})
	for _, c := range []struct {
		failure, noBundle error
		want              string
	}{
		{nil, nil, "0 2 9"}, {errors.New("the key does not fit"), nil, "1 2 9"}, {nil, errors.New("no such file"), "0 0 0"}, {nil, nil, "0 2 9"},
	} {
		certificate.failure, noBundle = c.failure, c.noBundle
		f := strings.Fields(c.want)
		want := `
# HELP workpulling_ca_bundle_certificates Authorities in the CA bundle; 0 where it cannot be read. During a rotation there are 2.
# TYPE workpulling_ca_bundle_certificates gauge
workpulling_ca_bundle_certificates ` + f[1] + `
# HELP workpulling_ca_bundle_expiry_timestamp_seconds When the last authority in the CA bundle expires; 0 where it cannot be read.
# TYPE workpulling_ca_bundle_expiry_timestamp_seconds gauge
workpulling_ca_bundle_expiry_timestamp_seconds ` + f[2] + `
# HELP workpulling_certificate_expiry_timestamp_seconds When the certificate that is served expires.
# TYPE workpulling_certificate_expiry_timestamp_seconds gauge
workpulling_certificate_expiry_timestamp_seconds 7
# HELP workpulling_certificate_reload_failures_total How often the newest certificate files could not be used when they were looked at.
# TYPE workpulling_certificate_reload_failures_total counter
workpulling_certificate_reload_failures_total 3
# HELP workpulling_certificate_stale 1 while the newest certificate files cannot be used and the pair before them serves.
# TYPE workpulling_certificate_stale gauge
workpulling_certificate_stale ` + f[0] + "\n"
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
	telemetry.RegisterAppStreams(registry, func() int { return 1 })
	telemetry.NewHandlerSeconds(registry).Observe(protocol.Confirmed, 0.5)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}
