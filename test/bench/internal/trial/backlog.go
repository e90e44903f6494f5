package trial

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Leg is a part of a trial over a backlog.
type Leg struct {
	Jobs          uint64        `json:"jobs"`
	JobsPerSecond float64       `json:"jobsPerSecond"`
	CPUPerJob     time.Duration `json:"cpuPerJobNanoseconds"`
	// Memory is that of the processes at the end of the leg.
	Memory []Memory `json:"memory"`
}

// BacklogFigures are what a trial over a backlog measured.
type BacklogFigures struct {
	// Fill is the time until as many jobs as the stage says are accepted, with no worker there; Steady that in which one comes in for each
	// that is handled; Drain that in which no job comes in any more.
	Fill, Steady, Drain Leg
	// Jobs is how many were submitted, accepted and handled once each.
	Jobs uint64 `json:"jobs"`
}

// What a backlog may take: the slowest system of ours is faster than that on a busy machine.
const (
	slowestFill  = 1000 // jobs a second
	slowestDrain = 500
)

// RunBacklog runs a trial whose stage floods a backlog that is filled before the workers come. An error means that it has no figures.
func (t Trial) RunBacklog(ctx context.Context) (figures BacklogFigures, err error) {
	t.Stage.Mode, t.Stage.Fill = Flood, true
	err = t.perform(func(r run) error {
		if figures, err = r.backlog(ctx); err != nil {
			return err
		}
		figures.Jobs = r.ledger.Accepted()
		_, err = r.end()
		return err
	})
	return figures, err
}

func (r run) backlog(ctx context.Context) (f BacklogFigures, err error) {
	defer r.ledger.SetPhase(Ending)
	began, err := take(r.ledger)
	if err != nil {
		return f, err
	}
	r.ledger.SetPhase(Filling)
	if err := r.filled(ctx); err != nil {
		return f, err
	}
	full, err := take(r.ledger)
	if err != nil {
		return f, err
	}
	if f.Fill, err = r.leg(began, full, full.submitted-began.submitted); err != nil {
		return f, err
	}
	r.ledger.SetPhase(Running)
	from, to, err := r.window(ctx)
	if err != nil {
		return f, err
	}
	if f.Steady, err = r.leg(from, to, to.handled-from.handled); err != nil {
		return f, err
	}
	r.ledger.SetPhase(Ending)
	if err := drained(ctx, r.ledger, drainLimit+r.Stage.patience(slowestDrain)); err != nil {
		return f, err
	}
	empty, err := take(r.ledger)
	if err != nil {
		return f, err
	}
	empty.at = empty.at.Add(-linger)
	f.Drain, err = r.leg(to, empty, empty.handled-to.handled)
	return f, err
}

// patience is how long the backlog takes at a rate.
func (s *Stage) patience(rate uint64) time.Duration {
	return time.Duration(s.backlog()/rate) * time.Second
}

// filled waits until the backlog is full.
func (r run) filled(ctx context.Context) error {
	limit := drainLimit + r.Stage.patience(slowestFill)
	for deadline := time.Now().Add(limit); r.ledger.Accepted() < r.Stage.backlog(); {
		switch {
		case r.ledger.Ended():
			return errors.New("the producer ended before its time")
		case time.Now().After(deadline):
			return fmt.Errorf("%d jobs accepted within %s", r.ledger.Accepted(), limit)
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func (r run) leg(from, to mark, jobs uint64) (l Leg, err error) {
	l.Jobs, l.JobsPerSecond = jobs, float64(jobs)/to.at.Sub(from.at).Seconds()
	if jobs > 0 {
		l.CPUPerJob = (to.cpu - from.cpu) / time.Duration(jobs)
	}
	l.Memory, err = r.memory()
	return l, err
}
