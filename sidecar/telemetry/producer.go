package telemetry

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
)

// scrapeLimit bounds how long a scrape waits for the controller.
const scrapeLimit = 5 * time.Second

// Producer collects one Producer's figures at each scrape.
type Producer struct {
	stats func(context.Context) (endpoint.ProducerStats, error)
	all   []*prometheus.Desc

	phase, backlogJobs, backlogBytes, delayed, inFlight, deadLetters, oldest, freeDemand, grants, dirty, isolated *prometheus.Desc
	memory, workers, queueUp, queueFull, withheld, lost                                                           *prometheus.Desc
	tracked, streams, workerJobs, busiest, epoch, sessionAge, orphans, quarantined, paused, pauses, failures      *prometheus.Desc
	awaited, adopted, claimed                                                                                     *prometheus.Desc
	accepted, confirmed, deadLettered, redelivered, nacked, handedBack, dropped, refused                          *prometheus.Desc
}

// NewProducer returns a collector that reads stats, which may fail: the figures are then left out of the scrape.
func NewProducer(stats func(context.Context) (endpoint.ProducerStats, error)) *Producer {
	var all []*prometheus.Desc
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		all = append(all, prometheus.NewDesc("workpulling_flow_"+name, help, labels, nil))
		return all[len(all)-1]
	}
	p := &Producer{
		stats:        stats,
		phase:        desc("phase", "1 for the phase that the controller is in: Loading, Running or Failed.", "phase"),
		backlogJobs:  desc("backlog_jobs", "Stored jobs that no worker holds, those in a back-off included."),
		backlogBytes: desc("backlog_bytes", "Payload bytes of stored jobs that no worker holds."),
		delayed:      desc("delayed_jobs", "Stored jobs that wait for a back-off."),
		inFlight:     desc("in_flight_jobs", "Jobs that workers hold."),
		deadLetters:  desc("dead_letters", "Jobs kept for a person to decide on."),
		oldest:       desc("oldest_backlog_age_seconds", "How long the oldest job in the backlog has waited."),
		freeDemand:   desc("free_demand_jobs", "Demand of workers that no job has used yet."),
		grants:       desc("open_grants", "Submissions that were granted and not made."),
		dirty:        desc("pending_settlements", "Settlements that are not durable yet."),
		isolated:     desc("isolated_settlements", "Settlements that keep failing to become durable and were set aside."),
		memory:       desc("memory_bytes", "Payload bytes in memory."),
		workers:      desc("bound_workers", "Workers with a binding."),
		awaited:      desc("awaited_workers", "Workers that may still run jobs of before the last load, and are waited for before those go out again."),
		queueUp:      desc("queue_available", "1 while the queue works."),
		queueFull:    desc("queue_full", "1 while the queue has no room for new jobs, because its volume or database is full or read-only."),
		withheld:     desc("credit_withheld", "1 while no credit is granted because settlements cannot be written."),
		tracked:      desc("tracked_workers", "Worker pods that are remembered, those without a binding included."),
		streams:      desc("tracked_streams", "Streams of workers that are open."),
		workerJobs:   desc("worker_in_flight_jobs", "Jobs that a worker holds; of the first 500 workers by registration.", "pool", "pod"),
		busiest:      desc("busiest_worker_in_flight_jobs", "Jobs that the worker with the most of them holds."),
		epoch:        desc("epoch", "Generation of the writer of the queue; each load issues the next one."),
		sessionAge:   desc("session_age_seconds", "Age of this controller."),
		orphans:      desc("orphaned_jobs", "Jobs stored over an hour ago whose producer never acknowledged that."),
		quarantined:  desc("quarantined_workers", "Worker pods that are kept away, by cause: flapping or violation.", "cause"),
		paused:       desc("paused_revisions", "Revisions of a pool that get no jobs but probes, because every job of theirs fails.", "pool"),
		pauses:       desc("revision_pauses_total", "How often a revision was paused."),
		failures:     desc("terminal_failures_total", "Terminal failures of reliable delivery, by stage.", "stage"),
		lost:         desc("lost_volatile_jobs", "Jobs that a volatile queue forgot at earlier restarts."),
		accepted:     desc("accepted_jobs_total", "Jobs stored."),
		confirmed:    desc("confirmed_jobs_total", "Jobs confirmed."),
		deadLettered: desc("dead_lettered_jobs_total", "Jobs that became dead letters."),
		redelivered:  desc("redelivered_jobs_total", "Deliveries of jobs that had been dispatched before."),
		nacked:       desc("nacked_jobs_total", "Deliveries that a handler failed."),
		handedBack:   desc("handed_back_jobs_total", "Deliveries that came back unstarted."),
		adopted:      desc("adopted_jobs_total", "Jobs whose run went on across a restart of the producer or of the worker's sidecar, by the worker's claim."),
		claimed:      desc("claimed_outcomes_total", "Jobs that were settled by the claim of a worker that had ended them."),
		dropped:      desc("dropped_messages_total", "Messages refused or ignored, by reason.", "reason"),
		refused:      desc("refused_identities_total", "Peers and callers refused, by reason.", "reason"),
	}
	p.all = all
	return p
}

// Describe implements prometheus.Collector.
func (p *Producer) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range p.all {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (p *Producer) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeLimit)
	defer cancel()
	if stats, err := p.stats(ctx); err == nil {
		p.emit(stats, out)
	}
}

func (p *Producer) emit(s endpoint.ProducerStats, out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	count := func(desc *prometheus.Desc, value uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), labels...)
	}
	for _, phase := range []delivery.Phase{delivery.PhaseLoading, delivery.PhaseRunning, delivery.PhaseFailed} {
		gauge(p.phase, flag(s.Phase == phase), string(phase))
	}
	gauge(p.backlogJobs, float64(s.BacklogJobs+s.DelayedJobs))
	gauge(p.backlogBytes, float64(s.BacklogBytes))
	gauge(p.delayed, float64(s.DelayedJobs))
	gauge(p.inFlight, float64(s.InFlight))
	gauge(p.deadLetters, float64(s.DeadLetters))
	gauge(p.oldest, s.OldestBacklogAge.Seconds())
	gauge(p.freeDemand, float64(s.FreeDemand))
	gauge(p.grants, float64(s.OpenGrants))
	gauge(p.dirty, float64(s.DirtyConfirms))
	gauge(p.isolated, float64(s.IsolatedConfirms))
	gauge(p.memory, float64(s.MemoryBytes))
	gauge(p.workers, float64(len(s.Bindings)))
	gauge(p.awaited, float64(s.AwaitedWorkers))
	gauge(p.queueUp, flag(s.QueueAvailable))
	gauge(p.queueFull, flag(s.QueueFull))
	gauge(p.withheld, flag(s.CreditWithheld))
	gauge(p.lost, float64(s.LostVolatile))
	p.emitPolicies(s, gauge, count)
	count(p.accepted, s.Accepted)
	count(p.confirmed, s.Confirmed)
	count(p.deadLettered, s.DeadLettered)
	count(p.redelivered, s.Redelivered)
	count(p.nacked, s.Nacked)
	count(p.handedBack, s.HandedBack)
	count(p.adopted, s.Adopted)
	count(p.claimed, s.Claimed)
	for reason, n := range s.Dropped {
		count(p.dropped, n, reason)
	}
	for label, n := range s.Refused {
		count(p.refused, n, string(label))
	}
}

// mostWorkers bounds the series of single workers.
const mostWorkers = 500

func (p *Producer) emitPolicies(s endpoint.ProducerStats, gauge func(*prometheus.Desc, float64, ...string), count func(*prometheus.Desc, uint64, ...string)) {
	gauge(p.tracked, float64(s.TrackedWorkers))
	gauge(p.streams, float64(s.TrackedStreams))
	gauge(p.epoch, float64(s.Epoch))
	gauge(p.sessionAge, s.SessionAge.Seconds())
	gauge(p.orphans, float64(s.Orphans))
	type worker struct{ pool, pod string }
	busiest, held := 0, map[worker]int{}
	for i, b := range s.Bindings {
		busiest = max(busiest, b.InFlight)
		if i < mostWorkers {
			held[worker{b.Worker.Pool, b.Worker.PodName}] += b.InFlight // two pods of one name, for a moment
		}
	}
	for w, jobs := range held {
		gauge(p.workerJobs, float64(jobs), w.pool, w.pod)
	}
	gauge(p.busiest, float64(busiest))
	flapping := 0
	for _, q := range s.Quarantined {
		if q.Flapping {
			flapping++
		}
	}
	gauge(p.quarantined, float64(flapping), "flapping")
	gauge(p.quarantined, float64(len(s.Quarantined)-flapping), "violation")
	paused := map[string]int{}
	for _, b := range s.Bindings {
		paused[b.Worker.Pool] += 0
	}
	for _, r := range s.Paused {
		paused[r.Pool]++
	}
	for pool, n := range paused {
		gauge(p.paused, float64(n), pool)
	}
	count(p.pauses, s.Pauses)
	for _, stage := range []delivery.Stage{
		delivery.StageLoad, delivery.StageStore, delivery.StageAccept, delivery.StageConfirm, delivery.StageProtocol,
	} {
		count(p.failures, s.Failures[stage], string(stage))
	}
}

// Answers counts the intake's answers by status.
type Answers struct{ vector *prometheus.CounterVec }

// NewAnswers registers the counter.
func NewAnswers(registry prometheus.Registerer) *Answers {
	a := &Answers{vector: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "workpulling_intake_answers_total", Help: "Answers of the HTTP intake, by status code.",
	}, []string{"code"})}
	registry.MustRegister(a.vector)
	return a
}

// Count counts one answer.
func (a *Answers) Count(status int) { a.vector.WithLabelValues(strconv.Itoa(status)).Inc() }
