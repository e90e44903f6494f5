package producer

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

// collector exports a Producer's figures at each scrape. No label takes a value from a job or a peer.
type collector struct {
	stats func(context.Context) (endpoint.ProducerStats, error)
	all   []*prometheus.Desc

	phase, backlogJobs, backlogBytes, delayed, inFlight, deadLetters, oldest, freeDemand, grants, dirty, isolated *prometheus.Desc
	memory, workers, queueUp, withheld, lost                                                                      *prometheus.Desc
	accepted, confirmed, deadLettered, redelivered, nacked, handedBack, dropped, refused                          *prometheus.Desc
}

func newCollector(stats func(context.Context) (endpoint.ProducerStats, error)) *collector {
	var all []*prometheus.Desc
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		all = append(all, prometheus.NewDesc("workpulling_flow_"+name, help, labels, nil))
		return all[len(all)-1]
	}
	c := &collector{
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
		queueUp:      desc("queue_available", "1 while the queue works."),
		withheld:     desc("credit_withheld", "1 while no credit is granted because settlements cannot be written."),
		lost:         desc("lost_volatile_jobs", "Jobs that a volatile queue forgot at earlier restarts."),
		accepted:     desc("accepted_jobs_total", "Jobs stored."),
		confirmed:    desc("confirmed_jobs_total", "Jobs confirmed."),
		deadLettered: desc("dead_lettered_jobs_total", "Jobs that became dead letters."),
		redelivered:  desc("redelivered_jobs_total", "Deliveries of jobs that had been dispatched before."),
		nacked:       desc("nacked_jobs_total", "Deliveries that a handler failed."),
		handedBack:   desc("handed_back_jobs_total", "Deliveries that came back unstarted."),
		dropped:      desc("dropped_messages_total", "Messages refused or ignored, by reason.", "reason"),
		refused:      desc("refused_identities_total", "Peers and callers refused, by reason.", "reason"),
	}
	c.all = all
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range c.all {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeLimit)
	defer cancel()
	if stats, err := c.stats(ctx); err == nil {
		c.emit(stats, out)
	}
}

func (c *collector) emit(s endpoint.ProducerStats, out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	count := func(desc *prometheus.Desc, value uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), labels...)
	}
	for _, phase := range []delivery.Phase{delivery.PhaseLoading, delivery.PhaseRunning, delivery.PhaseFailed} {
		gauge(c.phase, flag(s.Phase == phase), string(phase))
	}
	gauge(c.backlogJobs, float64(s.BacklogJobs+s.DelayedJobs))
	gauge(c.backlogBytes, float64(s.BacklogBytes))
	gauge(c.delayed, float64(s.DelayedJobs))
	gauge(c.inFlight, float64(s.InFlight))
	gauge(c.deadLetters, float64(s.DeadLetters))
	gauge(c.oldest, s.OldestBacklogAge.Seconds())
	gauge(c.freeDemand, float64(s.FreeDemand))
	gauge(c.grants, float64(s.OpenGrants))
	gauge(c.dirty, float64(s.DirtyConfirms))
	gauge(c.isolated, float64(s.IsolatedConfirms))
	gauge(c.memory, float64(s.MemoryBytes))
	gauge(c.workers, float64(len(s.Bindings)))
	gauge(c.queueUp, flag(s.QueueAvailable))
	gauge(c.withheld, flag(s.CreditWithheld))
	gauge(c.lost, float64(s.LostVolatile))
	count(c.accepted, s.Accepted)
	count(c.confirmed, s.Confirmed)
	count(c.deadLettered, s.DeadLettered)
	count(c.redelivered, s.Redelivered)
	count(c.nacked, s.Nacked)
	count(c.handedBack, s.HandedBack)
	for reason, n := range s.Dropped {
		count(c.dropped, n, reason)
	}
	for label, n := range s.Refused {
		count(c.refused, n, string(label))
	}
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// answers counts the intake's answers by status.
type answers struct{ vector *prometheus.CounterVec }

func newAnswers(registry prometheus.Registerer) *answers {
	a := &answers{vector: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "workpulling_intake_answers_total", Help: "Answers of the HTTP intake, by status code.",
	}, []string{"code"})}
	registry.MustRegister(a.vector)
	return a
}

func (a *answers) count(status int) { a.vector.WithLabelValues(strconv.Itoa(status)).Inc() }
