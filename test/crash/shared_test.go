//go:build crash

package crash

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/runtime/queue/postgres"
	"github.com/workpulling/workpulling/runtime/queue/postgres/postgrestest"
	"github.com/workpulling/workpulling/test/builders"
	"github.com/workpulling/workpulling/test/prober"
)

// producers of a shared queue: one is active, the others stand by.
const producers = 3

// usualTakeover is the median in docs/results/crash.md of a run beside other work. Nothing is held to a bound below ten times that.
const usualTakeover = 1290 * time.Millisecond

// sharedWeights are those of a flow with a shared queue.
var sharedWeights = Weights{
	{KillActive, 18}, {KillStandby, 10}, {FenceActive, 8}, {PauseProducer, 4}, {ReplaceProducer, 6}, {KillDatabase, 6},
	{KillWorkerSidecar, 14}, {KillApp, 10}, {KillWorker, 7}, {ReplaceWorker, 5}, {PauseWorkerSidecar, 5}, {PauseApp, 2}, {KillOperator, 2},
	{KillEveryWorkerOnce, 1}, {KillEverything, 2},
}

// newSharedBed starts a bed with several producers on one database, of which it returns the connection string.
func newSharedBed(t *testing.T) (context.Context, *Bed, *postgrestest.Server, string) {
	t.Helper()
	server := postgrestest.Start(t)
	dsn := server.URL(server.Database(t))
	const secret = "database"
	ctx, bed := newBed(t, Options{
		Flow: func(flow *v1alpha1.WorkPullingFlow) {
			shared := builders.MakeFlow(flow.Name, flow.Namespace).PostgreSQL(secret, producers).Obj()
			flow.Spec.Queue, flow.Spec.Producer.Replicas = shared.Spec.Queue, shared.Spec.Producer.Replicas
		},
		Objects: []client.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secret}, StringData: map[string]string{"dsn": dsn}}},
	})
	t.Logf("seed %d", *seed)
	return ctx, bed, server, dsn
}

// restarts kills a server and starts it again after a while, one at a time.
func restarts(server *postgrestest.Server) func(context.Context, time.Duration) (bool, error) {
	var up sync.Mutex
	return func(ctx context.Context, down time.Duration) (bool, error) {
		if !up.TryLock() {
			return false, nil
		}
		defer up.Unlock()
		if err := server.Kill(); err != nil {
			return false, err
		}
		prober.Pause(ctx, down)
		return true, server.Run()
	}
}

// TestKillsOnASharedQueue does the same as TestKillsUnderLoad to three producers and their database, and has the active producer fenced by
// a takeover that it slept through.
func TestKillsOnASharedQueue(t *testing.T) {
	ctx, bed, server, dsn := newSharedBed(t)
	chaos := &Chaos{Bed: bed, Say: t.Logf, Database: restarts(server)}
	run := ride(ctx, t, bed, bed.Load(*rate), chaos.schedule(sharedWeights))
	checkShared(ctx, t, bed, run, dsn)
	if forwarded := int(run.load.Forwarded.Load()); forwarded < run.Accepted/10 {
		t.Errorf("of %d accepted jobs %d were forwarded: hardly anything came to a producer that stood by", run.Accepted, forwarded)
	}
	run.write(t, fmt.Sprintf("PostgreSQL queue, %d producers", producers))
}

// checkShared stops the bed and looks what is in its database.
func checkShared(ctx context.Context, t *testing.T, bed *Bed, run *figures, dsn string) {
	t.Helper()
	uid, err := bed.FlowUID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := bed.Stop(); err != nil {
		t.Error(err)
	}
	queue, err := postgres.New(ctx, postgres.Options{ConnString: dsn, FlowUID: uid, DeduplicationWindow: prober.DeduplicationWindow})
	if err != nil {
		t.Fatal(err)
	}
	defer queue.Close()
	checkQueue(ctx, t, queue, run)
}

// TestTakeoverTime kills the active producer again and again and measures how long it takes until another dispatches.
func TestTakeoverTime(t *testing.T) {
	ctx, bed, _, dsn := newSharedBed(t)
	load := bed.Load(*rate)
	var kills []prober.Moment
	run := ride(ctx, t, bed, load, func(ctx context.Context) (map[Kind]int, int, error) {
		err := bed.killActives(ctx, load, &kills)
		return map[Kind]int{KillActive: len(kills)}, 0, err
	})
	checkShared(ctx, t, bed, run, dsn)
	records, _, _ := load.Books()
	ledgers, err := prober.ReadLedgers(bed.Ledgers())
	if err != nil {
		t.Fatal(err)
	}
	took := prober.Takeovers(kills, records, ledgers)
	if len(took) != len(kills) {
		t.Errorf("%d kills, and only %d were followed by the run of a new job", len(kills), len(took))
	}
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	median := took[len(took)/2]
	text := fmt.Sprintf("From SIGKILL of the active producer to the first run of a job that was submitted after it, %d times: shortest %s, median %s, longest %s.\n",
		len(took), milliseconds(took[0]), milliseconds(median), milliseconds(took[len(took)-1]))
	t.Log(text, took)
	if median > 10*usualTakeover {
		t.Errorf("half of the takeovers took longer than %s", 10*usualTakeover)
	}
	writeResults(t, fmt.Sprintf("Takeover, %d producers, seed %d", producers, *seed), text+"\n"+run.table())
}

func milliseconds(d time.Duration) string { return d.Round(time.Millisecond).String() }

// killActives kills the active producer, which stays down until another has taken over and a new job is confirmed. When all are ready
// again it does the same to the next, until the length of the run is over.
func (b *Bed) killActives(ctx context.Context, load *prober.Load, kills *[]prober.Moment) error {
	for began := time.Now(); time.Since(began) < *length && ctx.Err() == nil; {
		p := b.active()
		if p == nil || !b.allReady() {
			prober.Pause(ctx, 50*time.Millisecond)
			continue
		}
		back, at := make(chan struct{}), prober.Now()
		hit, err := p.sidecar.killUntil(back)
		if err != nil || !hit {
			close(back)
			return fmt.Errorf("killing %s, which was up: %t: %w", p.name(), hit, err)
		}
		*kills = append(*kills, at)
		confirmed := prober.Await(ctx, takeoverLimit, pollEvery, func(context.Context) bool { return load.ConfirmedSince(at) })
		close(back)
		if !confirmed && ctx.Err() == nil {
			return fmt.Errorf("no producer took over from %s within %s", p.name(), takeoverLimit)
		}
	}
	return nil
}
