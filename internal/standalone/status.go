package standalone

import (
	"time"

	"github.com/workpulling/workpulling/runtime/endpoint"
)

// Status is one flow at one moment, as `-o json` prints it.
type Status struct {
	Time time.Time `json:"time"`
	Flow string    `json:"flow"`
	// State is Loading, Running, Suspended or Failed.
	State string `json:"state"`
	// Stored are jobs that no worker holds, InFlight those that one does.
	Stored   int `json:"stored"`
	InFlight int `json:"inFlight"`
	// Confirmed counts from the start of this run.
	Confirmed   uint64 `json:"confirmed"`
	DeadLetters int64  `json:"deadLetters"`
	// Lost are the jobs that a Memory queue has forgotten at the ends of earlier runs.
	Lost int64 `json:"lost"`
	// Redelivered counts the deliveries of this run that were not the first of their job.
	Redelivered uint64 `json:"redelivered"`
	// JobsPerSecond is the pace of confirmations over the last seconds.
	JobsPerSecond float64 `json:"jobsPerSecond"`
	// WorkersReady are those whose app answers, of Workers.
	WorkersReady int `json:"workersReady"`
	Workers      int `json:"workers"`
	// Message is what is wrong with the queue; empty while nothing is.
	Message string `json:"message,omitempty"`

	cursor int64 // of the store: it moves with each new job
	quiet  bool  // nothing is on its way to the queue
}

const (
	stateLoading   = "Loading"
	stateRunning   = "Running"
	stateSuspended = "Suspended"
	stateFailed    = "Failed"
)

// statusOf translates the figures of a producer.
func statusOf(flow string, now time.Time, stats endpoint.ProducerStats) Status {
	s := Status{
		Time: now, Flow: flow, State: string(stats.Phase), Message: stats.QueueMessage,
		Stored: stats.BacklogJobs + stats.DelayedJobs, InFlight: stats.InFlight,
		Confirmed: stats.Confirmed, DeadLetters: stats.DeadLetters, Lost: stats.LostVolatile, Redelivered: stats.Redelivered,
		cursor: stats.Cursor, quiet: stats.DirtyConfirms == 0,
	}
	if stats.QueueFull && s.State == stateRunning {
		s.Message += "; new jobs are refused until there is room, stored ones go on"
	}
	switch {
	case stats.Failure != nil:
		s.State, s.Message = stateFailed, string(stats.Failure.Stage)+": "+stats.Failure.Cause.Error()
	case s.State == stateRunning && !stats.Intake.Dispatch:
		s.State = stateSuspended
	}
	return s
}

// empty says that every job that was accepted is settled, or is a dead letter.
func (s Status) empty() bool {
	return s.State == stateRunning && s.quiet && s.Stored == 0 && s.InFlight == 0
}

// pace measures the rate of a counter over the last paceWindow.
type pace struct{ samples []sample }

type sample struct {
	at    time.Time
	count uint64
}

const paceWindow = 5 * time.Second

// add takes the counter in and returns its rate per second. A counter that went back begins anew.
func (p *pace) add(at time.Time, count uint64) float64 {
	if n := len(p.samples); n > 0 && count < p.samples[n-1].count {
		p.samples = nil
	}
	p.samples = append(p.samples, sample{at, count})
	for len(p.samples) > 2 && at.Sub(p.samples[1].at) >= paceWindow {
		p.samples = p.samples[1:]
	}
	first := p.samples[0]
	if elapsed := at.Sub(first.at).Seconds(); elapsed > 0 {
		return float64(count-first.count) / elapsed
	}
	return 0
}

// stillness notes since when nothing has been left to do.
type stillness struct {
	since   time.Time
	cursors map[string]int64
}

// after says whether all flows have been empty for patience, without a new job.
func (s *stillness) after(patience time.Duration, now time.Time, statuses []Status) bool {
	cursors, still := map[string]int64{}, true
	for _, status := range statuses {
		cursors[status.Flow] = status.cursor
		known, ok := s.cursors[status.Flow]
		still = still && status.empty() && ok && known == status.cursor
	}
	s.cursors = cursors
	if !still {
		s.since = now
		return false
	}
	return now.Sub(s.since) >= patience
}
