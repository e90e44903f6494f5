package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// Worker collects the status of a worker's machine at each scrape.
type Worker struct {
	status func() delivery.ConsumerStatus

	registered, ready, draining, running, buffered, unsettled *prometheus.Desc
	started, settled, duplicates, dropped                     *prometheus.Desc
	orphaned, tracked, forgotten, rivals, older               *prometheus.Desc
}

// NewWorker returns a collector that reads status.
func NewWorker(status func() delivery.ConsumerStatus) *Worker {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("workpulling_worker_"+name, help, labels, nil)
	}
	return &Worker{
		status:     status,
		registered: desc("registered", "1 while the worker has a binding to the flow.", "flow"),
		ready:      desc("app_ready", "1 while the app takes jobs: it answers its port, or has a stream open."),
		draining:   desc("draining", "1 while the worker is cordoned or drains."),
		running:    desc("running_jobs", "Handlers in progress, abandoned ones included.", "flow"),
		buffered:   desc("buffered_jobs", "Deliveries held and not started.", "flow"),
		unsettled:  desc("unsettled_jobs", "Running, buffered, and settlements that the controller has not taken over.", "flow"),
		started:    desc("started_jobs_total", "Handlers started.", "flow"),
		settled:    desc("settled_jobs_total", "Deliveries that ended, by outcome.", "flow", "outcome"),
		duplicates: desc("duplicate_deliveries_total", "Deliveries that were absorbed without running the handler.", "flow"),
		dropped:    desc("dropped_messages_total", "Messages refused or ignored, by reason; without a flow where they belong to none.", "flow", "reason"),
		orphaned:   desc("orphaned_slots", "Slots taken by handlers that an earlier process of the sidecar began under the same app."),
		tracked:    desc("tracked_producers", "Producers that the worker remembers something about."),
		forgotten:  desc("forgotten_producers_total", "Producers forgotten, by cause: capacity or idle.", "cause"),
		rivals:     desc("rival_producers_total", "Bindings that show two producers under one name.", "flow"),
		older:      desc("older_epochs_total", "Bindings turned away because a newer writer of the same queue is known.", "flow"),
	}
}

// Describe implements prometheus.Collector.
func (w *Worker) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		w.registered, w.ready, w.draining, w.running, w.buffered, w.unsettled, w.started, w.settled, w.duplicates, w.dropped,
		w.orphaned, w.tracked, w.forgotten, w.rivals, w.older,
	} {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (w *Worker) Collect(out chan<- prometheus.Metric) {
	s := w.status()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	count := func(desc *prometheus.Desc, value uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), labels...)
	}
	gauge(w.ready, flag(s.AppReady))
	gauge(w.draining, flag(s.Cordoned || s.Draining))
	gauge(w.orphaned, float64(s.Orphaned))
	gauge(w.tracked, float64(s.TrackedProducers))
	count(w.forgotten, s.EvictedProducers, "capacity")
	count(w.forgotten, s.IdleProducers, "idle")
	for _, f := range s.Flows {
		count(w.rivals, f.Rivals, f.Flow)
		count(w.older, f.OlderEpochs, f.Flow)
		gauge(w.registered, flag(f.Registered), f.Flow)
		gauge(w.running, float64(f.Running), f.Flow)
		gauge(w.buffered, float64(f.Buffered), f.Flow)
		gauge(w.unsettled, float64(f.Unsettled), f.Flow)
		count(w.started, f.Started, f.Flow)
		count(w.settled, f.Confirmed, f.Flow, "confirmed")
		count(w.settled, f.Nacked, f.Flow, "nacked")
		count(w.settled, f.HandedBack, f.Flow, "handed-back")
		count(w.settled, f.Abandoned, f.Flow, "abandoned")
		count(w.duplicates, f.Duplicates, f.Flow)
		for reason, n := range f.Dropped {
			count(w.dropped, n, f.Flow, reason)
			s.Dropped[reason] -= n
		}
	}
	for reason, n := range s.Dropped { // what is left belongs to no flow
		if n > 0 {
			count(w.dropped, n, "", reason)
		}
	}
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// RegisterAppStreams registers a gauge of the streams that the app has open.
func RegisterAppStreams(registry prometheus.Registerer, open func() int) {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "workpulling_worker_app_streams",
		Help: "Streams of the app that take deliveries; 0 where jobs are posted over HTTP.",
	}, func() float64 { return float64(open()) }))
}

// HandlerSeconds times the app's answers by outcome.
type HandlerSeconds struct {
	byOutcome map[protocol.Outcome]prometheus.Observer // found once, not for each job
	others    prometheus.Observer
}

// NewHandlerSeconds registers the histogram.
func NewHandlerSeconds(registry prometheus.Registerer) *HandlerSeconds {
	histogram := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "workpulling_worker_handler_seconds",
		Help:    "Time from invoking the app to its answer, by outcome.",
		Buckets: prometheus.ExponentialBucketsRange(0.001, 600, 16),
	}, []string{"outcome"})
	registry.MustRegister(histogram)
	h := &HandlerSeconds{byOutcome: map[protocol.Outcome]prometheus.Observer{}, others: histogram.WithLabelValues(protocol.Nacked.String())}
	for outcome := protocol.Confirmed; outcome <= protocol.Delayed; outcome++ {
		if outcome != protocol.Abandoned { // which is not the app's word
			h.byOutcome[outcome] = histogram.WithLabelValues(outcome.String())
		}
	}
	return h
}

// Observe records one answer. An outcome that no app can give is a failure, as it is for the worker.
func (h *HandlerSeconds) Observe(outcome protocol.Outcome, seconds float64) {
	observer, found := h.byOutcome[outcome]
	if !found {
		observer = h.others
	}
	observer.Observe(seconds)
}
