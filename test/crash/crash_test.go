//go:build crash

package crash

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/local"
	"github.com/workpulling/workpulling/test/prober"
)

var (
	length  = flag.Duration("length", time.Minute, "how long faults come")
	seed    = flag.Uint64("seed", uint64(time.Now().UnixNano()%1e6), "of the jobs, the app and the schedule")
	every   = flag.Duration("every", 1500*time.Millisecond, "mean time between faults")
	rate    = flag.Float64("rate", 300, "jobs a second at most")
	workers = flag.Int("workers", 4, "worker pods; one of them is spared")
	results = flag.String("results", "", "append the figures to this file")
	keep    = flag.String("keep", "", "leave logs and ledgers in this directory")
)

// Times that nothing here should take.
const (
	startLimit  = 50 * time.Minute // the first start on a machine builds Kubernetes
	settleLimit = 3 * time.Minute
)

func TestMain(m *testing.M) {
	if os.Getenv(prober.EnvApp) != "" {
		fmt.Fprintln(os.Stderr, prober.RunApp())
		os.Exit(1)
	}
	flag.Parse()
	os.Exit(m.Run())
}

// weights of the faults of a flow with a queue of its own.
var localWeights = Weights{
	{KillWorkerSidecar, 20}, {KillApp, 15}, {KillWorker, 10}, {ReplaceWorker, 8}, {KillProducer, 18}, {ReplaceProducer, 5},
	{PauseWorkerSidecar, 8}, {PauseApp, 4}, {PauseProducer, 5}, {KillOperator, 3}, {KillEveryWorkerOnce, 2}, {KillEverything, 2},
}

// newBed starts a bed that ends with the test, also when that is interrupted.
func newBed(t *testing.T, options Options) (context.Context, *Bed) {
	t.Helper()
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	t.Cleanup(stop)
	var err error
	if options.Dir = *keep; options.Dir == "" {
		if options.Dir, err = os.MkdirTemp("", "wp-crash-"); err != nil { //nolint:usetesting // t.TempDir is too long for a socket
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("logs and ledgers are in %s", options.Dir)
			} else if err := os.RemoveAll(options.Dir); err != nil {
				t.Error(err)
			}
		})
	}
	if options.App, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	options.Seed, options.Workers = *seed, *workers
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	bed, err := Start(starting, options)
	t.Cleanup(func() {
		if err := bed.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return ctx, bed
}

// TestKillsUnderLoad kills and pauses every kind of process at random moments under load; then every accepted job has been run to its
// end and confirmed, and nothing is left.
func TestKillsUnderLoad(t *testing.T) {
	ctx, bed := newBed(t, Options{})
	t.Logf("seed %d", *seed)
	chaos := &Chaos{Bed: bed, Say: t.Logf}
	run := ride(ctx, t, bed, bed.Load(*rate), chaos.schedule(localWeights))
	uid, err := bed.FlowUID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := bed.Stop(); err != nil {
		t.Error(err)
	}
	queue, err := local.Open(ctx, local.Options{Dir: bed.DataDir(), FlowUID: uid, DeduplicationWindow: prober.DeduplicationWindow})
	if err != nil {
		t.Fatal(err)
	}
	defer queue.Close()
	checkQueue(ctx, t, queue, run)
	run.write(t, "Local queue, one producer")
}

// faults does what a run is about, until ctx ends, and counts what hit and what found nothing to hit.
type faults func(ctx context.Context) (hits map[Kind]int, idle int, err error)

// schedule draws the faults from the flags.
func (c *Chaos) schedule(weights Weights) faults {
	return func(ctx context.Context) (map[Kind]int, int, error) {
		err := c.Run(ctx, Schedule(*seed, *length, *every, weights))
		hits, idle := c.Done()
		return hits, idle, err
	}
}

// ride loads a bed while faults come, waits until everything is settled, and judges.
func ride(ctx context.Context, t *testing.T, bed *Bed, load *prober.Load, faults faults) *figures {
	t.Helper()
	memory := &Memory{Bed: bed}
	submitting, enough := context.WithCancel(ctx)
	defer enough()
	settling, cancel := context.WithTimeout(ctx, *length+settleLimit)
	defer cancel()
	loaded, began := make(chan error, 1), time.Now()
	watching, stopWatching := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	watchers.Go(func() { memory.Watch(watching) })
	watchers.Go(func() { bed.follow(watching) })
	go func() { loaded <- load.Run(settling, submitting) }()
	hits, idle, err := faults(submitting)
	if err != nil {
		t.Error(err)
	}
	prober.Pause(submitting, *length-time.Since(began))
	enough()
	t.Logf("%8.3f s  no more faults, no more jobs", time.Since(began).Seconds())
	if err := <-loaded; err != nil {
		t.Error(err)
	}
	run := &figures{took: time.Since(began), hits: hits, idle: idle, memory: memory, load: load}
	stopWatching()
	watchers.Wait()
	judge(ctx, t, bed, run)
	return run
}

// judge fails the test for everything that must not be.
func judge(ctx context.Context, t *testing.T, bed *Bed, f *figures) {
	t.Helper()
	records, maxSeq, err := f.load.Books()
	if err != nil {
		t.Error(err)
	}
	bed.awaitIdle(ctx, t)
	ledgers, err := prober.ReadLedgers(bed.Ledgers())
	if err != nil {
		t.Fatal(err)
	}
	f.Verdict, f.maxSeq = prober.Judge(records, ledgers, bed.Node.Pasts()), maxSeq
	for _, line := range f.Faults {
		t.Error(line)
	}
	for _, line := range f.LateRuns {
		t.Logf("run after its confirmation: %s", line)
	}
	for _, line := range bed.Node.Deaths() {
		t.Errorf("a process ended by itself: %s", line)
	}
	t.Logf("\n%s", f.table())
	if f.Accepted != f.Submitted || f.Accepted != f.Confirmed+f.Forgotten+f.DeadLetters || f.Lost != 0 {
		t.Errorf("submitted %d, accepted %d, confirmed %d, dead letters %d, lost %d", f.Submitted, f.Accepted, f.Confirmed, f.DeadLetters, f.Lost)
	}
	if err := f.Enough(*length, leastRate); err != nil {
		t.Error(err)
	}
	if len(f.hits) == 0 {
		t.Error("no fault hit anything")
	}
}

// awaitIdle waits until the producer itself says that nothing is left.
func (b *Bed) awaitIdle(ctx context.Context, t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		left, told := 0.0, false
		for _, p := range b.Node.podsOf(v1alpha1.RoleProducer) {
			backlog, err1 := b.metric(p, "workpulling_flow_backlog_jobs")
			inFlight, err2 := b.metric(p, "workpulling_flow_in_flight_jobs")
			if err1 == nil && err2 == nil { // a standby has no figures
				left, told = left+backlog+inFlight, true
			}
		}
		if told && left == 0 {
			return
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			t.Errorf("at the end %v jobs are left in the flow (a producer says so: %t)", left, told)
			return
		}
		prober.Pause(ctx, 100*time.Millisecond)
	}
}

// checkQueue opens the queue as the next producer would: no job is left, the dead letters are there, and the cursor was kept.
func checkQueue(ctx context.Context, t *testing.T, q queue.WorkQueue, f *figures) {
	t.Helper()
	rows := 0
	state, _, err := q.Load(ctx, "the crash test", func(queue.Row) error {
		rows++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if rows != 0 || state.DeadLetters != int64(f.DeadLetters) || state.Cursor != f.maxSeq {
		t.Errorf("the queue has %d jobs, %d dead letters and the cursor %d; want 0, %d and %d", rows, state.DeadLetters, state.Cursor, f.DeadLetters, f.maxSeq)
	}
}

// write appends the figures to the results.
func (f *figures) write(t *testing.T, title string) {
	t.Helper()
	writeResults(t, fmt.Sprintf("%s, seed %d", title, *seed), f.table())
}

func writeResults(t *testing.T, title, text string) {
	t.Helper()
	if *results == "" {
		return
	}
	file, err := os.OpenFile(filepath.Clean(*results), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := fmt.Fprintf(file, "\n## %s\n\n%s", title, text); err != nil {
		t.Error(err)
	}
}
