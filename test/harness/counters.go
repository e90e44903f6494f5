package harness

import (
	"context"
	"errors"
	"strings"
)

// Counters are the producer's own figures of a flow, read from its metrics. They are for a person to watch; the proof of a run
// comes from the effects.
type Counters struct {
	Backlog, InFlight, Workers float64
	Redelivered                Total
}

// Total is a counter over several processes: it goes on where the next process begins at zero. What a process counted between
// the last observation and its death is not in it.
type Total struct {
	seen        bool
	last, value float64
}

// Value is what was counted since the first observation.
func (t Total) Value() float64 { return t.value }

func (t *Total) observe(now float64) {
	switch {
	case !t.seen:
		t.seen = true
	case now < t.last:
		t.value += now
	default:
		t.value += now - t.last
	}
	t.last = now
}

// Read takes the figures of a flow from the metrics of its producer.
func (c *Counters) Read(ctx context.Context, kubectl *Kubectl, namespace, flow string) error {
	text, err := kubectl.Proxy(ctx, namespace, "pods/"+flow+"-producer-0:9441", "/metrics")
	if err != nil {
		return err
	}
	return c.parse(text)
}

func (c *Counters) parse(text string) error {
	metrics, err := ReadMetrics(strings.NewReader(text))
	if err != nil {
		return err
	}
	if _, found := metrics.Sum("workpulling_flow_backlog_jobs"); !found {
		return errors.New("the producer's metrics hold no workpulling_flow_backlog_jobs")
	}
	value := func(name string) float64 {
		sum, _ := metrics.Sum("workpulling_flow_" + name)
		return sum
	}
	c.Backlog, c.InFlight, c.Workers = value("backlog_jobs"), value("in_flight_jobs"), value("bound_workers")
	c.Redelivered.observe(value("redelivered_jobs_total"))
	return nil
}
