package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/postgres"
	"github.com/workpulling/workpulling/runtime/queue/postgres/postgrestest"
	"github.com/workpulling/workpulling/runtime/queue/queuetest"
)

// What the clients of two processes see is linearizable, whatever happens to their connections (G-120, B-059).
func TestLinearizableOverCuts(t *testing.T) {
	seed := queuetest.Seed(t)
	server := postgrestest.Shared(t)
	proxy := proxied(t, server)
	database := server.Database(t)
	for i := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, i))
		handles := twoHandles(t, proxy.Address(), database, fmt.Sprintf("flow-%d", i))
		var r queuetest.Recorder
		end, cutter := make(chan struct{}), sync.WaitGroup{}
		cutter.Go(func() {
			for range 4 { // more leave too much open for a verdict
				select {
				case <-end:
					return
				case <-time.After(time.Duration(20+random.IntN(150)) * time.Millisecond):
					proxy.CutAt(1+random.IntN(4), random.IntN(2) == 0)
				}
			}
		})
		queuetest.Workload{Seed: seed + i, Clients: 5, Steps: 20, Impatient: 3}.Run(t.Context(), handles, r.Record)
		close(end)
		cutter.Wait()
		proxy.Pending()
		check(t, seed+i, r.Events)
	}
}

// The same over servers that crash.
func TestLinearizableOverCrashes(t *testing.T) {
	seed := queuetest.Seed(t)
	server := postgrestest.Start(t)
	handles := twoHandles(t, server.Address(), server.Database(t), "flow")
	random := rand.New(rand.NewPCG(seed, 0))
	var history []queuetest.Event
	for i := range uint64(3) {
		var r queuetest.Recorder
		crash := sync.WaitGroup{}
		ctx, cancel := context.WithCancel(t.Context())
		crash.Go(func() {
			<-time.After(time.Duration(50+random.IntN(200)) * time.Millisecond)
			if err := server.Kill(); err != nil {
				t.Error(err)
			}
			cancel() // what is asked of a server that is not there is not worth a line
		})
		queuetest.Workload{Seed: seed + i, Clients: 4, Steps: 1000}.Run(ctx, handles, r.Record)
		crash.Wait()
		if err := server.Run(); err != nil {
			t.Fatal(err)
		}
		history = queuetest.Renumber(history, r.Events)
	}
	check(t, seed, history)
}

func twoHandles(t *testing.T, address, database, flow string) []queue.WorkQueue {
	t.Helper()
	options := postgres.Options{ConnString: postgrestest.URLAt(address, database), FlowUID: flow}
	return []queue.WorkQueue{opened(t, options), opened(t, options)}
}

func check(t *testing.T, seed uint64, history []queuetest.Event) {
	t.Helper()
	if err := queuetest.CheckHistory(history); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	t.Logf("seed %d: %d events, %d operations without an answer", seed, len(history), queuetest.Unknown(history))
}
