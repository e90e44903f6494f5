package endpoint

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// endings is a RunningSet that notes which runs ended.
type endings struct {
	RunningSet
	ids []string
}

func (e *endings) End(id string) { e.ids = append(e.ids, id) }

// I-9: when the worker ends, its handlers are broken off, and what they say then is no word of the app. Their runs stay in the running set,
// so that the next process of the pod does not begin a second one beside them. Success is the app's word whenever it comes.
func TestWhatTheEndBreaksOffStaysInTheRunningSet(t *testing.T) {
	outcomes := map[string]protocol.Outcome{"failed": protocol.Nacked, "unreachable": protocol.HandedBack, "done": protocol.Confirmed}
	set := &endings{RunningSet: Forgetful}
	w := NewWorker(WorkerOptions{
		Incarnation: protocol.Incarnation{PodUID: "pod", BootNonce: "boot"}, Log: logr.Discard(), Running: set,
		Flows: []Source{{
			Flow: "orders",
			Dial: func(ctx context.Context) (Stream, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
			Handler: HandlerFunc(func(ctx context.Context, d protocol.Delivery) Result {
				<-ctx.Done()
				return Result{Outcome: outcomes[d.Job.MessageID]}
			}),
		}},
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { _ = w.Run(ctx) })
	w.loop.post(func() {
		run := delivery.RunID(0)
		for id := range outcomes {
			run++
			w.invoke(&delivery.StartHandler{Run: run, Flow: "orders", Delivery: protocol.Delivery{Job: protocol.Job{MessageID: id}}})
		}
		cancel()
		for w.results.len() < len(outcomes) { // the loop is busy until all handlers have answered
			runtime.Gosched()
		}
	})
	running.Wait()
	slices.Sort(set.ids)
	if diff := cmp.Diff([]string{"done"}, set.ids); diff != "" {
		t.Errorf("ended in the running set (-want +got):\n%s", diff)
	}
}
