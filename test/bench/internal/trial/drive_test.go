package trial

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"
)

// gate is a submitter whose first call does not return before it is opened.
type gate struct {
	mu    sync.Mutex
	jobs  []Job
	first sync.Once
	open  chan struct{}
}

func (g *gate) Submit(_ context.Context, jobs []Job) error {
	g.mu.Lock()
	g.jobs = append(g.jobs, jobs...)
	g.mu.Unlock()
	g.first.Do(func() { <-g.open })
	return nil
}

func (g *gate) Pace() Pace   { return Pace{Callers: 1, Batch: 4} }
func (g *gate) Close() error { return nil }

func (g *gate) submitted() []Job {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.jobs)
}

// A call that hangs delays no other, and every job keeps the time that the schedule gave it.
func TestPacedOmitsNothing(t *testing.T) {
	const rate, jobs = 2000, 200
	ledger, g := newLedger(t), &gate{open: make(chan struct{})}
	d := driver{stage: &Stage{Mode: Paced, Rate: rate, PayloadBytes: 64}, ledger: ledger, to: g, calls: NewHistogram()}
	driven := make(chan error, 1)
	go func() { driven <- d.drive(t.Context()) }()
	ledger.SetPhase(Running)
	until(t, "jobs behind one that hangs", func() bool { return len(g.submitted()) >= jobs })
	if ledger.Accepted() >= uint64(len(g.submitted())) {
		t.Error("a job whose call has not returned counts as accepted")
	}
	close(g.open)
	ledger.SetPhase(Ending)
	if err := <-driven; err != nil {
		t.Fatal(err)
	}
	if !ledger.Ended() || ledger.Accepted() != ledger.Submitted() {
		t.Errorf("%d jobs were submitted and %d accepted", ledger.Submitted(), ledger.Accepted())
	}
	var times []int64
	for _, j := range g.submitted() {
		_, at, _ := ReadJob(j.Payload, 64)
		times = append(times, at)
	}
	slices.Sort(times)
	for i, at := range times {
		if want := times[0] + int64(i)*int64(time.Second)/rate; at != want {
			t.Fatalf("job %d of the schedule is %d ns off", i, at-want)
		}
	}
}

// While nobody handles anything, a flood stops at the bound of the backlog.
func TestFloodHasABound(t *testing.T) {
	ledger, g := newLedger(t), &gate{open: make(chan struct{})}
	close(g.open)
	d := driver{stage: &Stage{Mode: Flood, PayloadBytes: 64}, ledger: ledger, to: g, calls: NewHistogram()}
	driven := make(chan error, 1)
	go func() { driven <- d.drive(t.Context()) }()
	ledger.SetPhase(Running)
	until(t, "a full backlog", func() bool { return ledger.Accepted() > Backlog })
	ledger.SetPhase(Ending)
	if err := <-driven; err != nil {
		t.Fatal(err)
	}
	if got, most := ledger.Accepted(), uint64(Backlog+g.Pace().Batch); got > most {
		t.Errorf("%d jobs were accepted, at most %d may be", got, most)
	}
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(time.Minute); !condition(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
