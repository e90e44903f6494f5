package delivery

import (
	"fmt"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// unreliable is a flow of 200 jobs whose workers fail, reject, delay and hand back, over streams that lose every seventh message. What
// it returns is how often the queue was written, and how each job ended.
func unreliable(t *testing.T, together bool) (writes int, dead map[string]bool) {
	t.Helper()
	w := newWorld(t, func(c *ControllerConfig) {
		c.MaxAttempts, c.BackoffInitial, c.BackoffMax = 1000, time.Millisecond, time.Second
	})
	w.together = together
	answers := []protocol.Outcome{
		protocol.Confirmed, protocol.Nacked, protocol.Confirmed, protocol.Delayed, protocol.Confirmed, protocol.HandedBack, protocol.Confirmed,
	}
	answered := 0
	answer := func(d protocol.Delivery) protocol.Outcome {
		if d.StoreSeq%50 == 0 {
			return protocol.Rejected
		}
		answered++
		return answers[answered%len(answers)]
	}
	for i := range 3 {
		w.worker(fmt.Sprint("w", i), func(c *ConsumerConfig) { c.Window, c.Concurrency = 20, 4 }).serve(answer)
	}
	sent := 0
	w.toWorker = func(*testWorker, protocol.ToWorker) bool { sent++; return sent%7 != 0 }
	w.fromWorker = func(*testWorker, protocol.FromWorker) bool { sent++; return sent%7 != 0 }
	for i := range 4 {
		w.submit(w.producer(10), fmt.Sprint("p", i, " "), 50)
	}
	for range 600 {
		if s := w.ctl.Stats(); s.Confirmed+s.DeadLettered == 200 {
			break
		}
		w.advance(time.Second)
	}
	dead = map[string]bool{}
	for _, s := range w.settled {
		dead[s.Ref.MessageID] = s.DeadLettered
	}
	w.equal("settled", len(w.settled), 200)
	w.equal("settled jobs", len(dead), 200)
	w.equal("failed", len(w.failed), 0)
	return len(w.batches), dead
}

// Events that are taken together lead where they lead one by one, by fewer writes.
func TestEventsTakenTogether(t *testing.T) {
	apart, _ := unreliable(t, false)
	together, dead := unreliable(t, true)
	if together >= apart {
		t.Errorf("%d writes of events taken together, %d one by one", together, apart)
	}
	rejected := 0
	for _, ended := range dead {
		if ended {
			rejected++
		}
	}
	if rejected != 4 {
		t.Errorf("%d dead letters, want the 4 rejected jobs", rejected)
	}
}

// Nothing is said twice and nothing after the end.
func TestActWithoutEvents(t *testing.T) {
	w := newWorld(t, nil)
	w.submit(w.producer(1), "", 1)
	w.run()
	if todo := w.ctl.Act(w.now); len(todo.Actions)+len(todo.Stored)+len(todo.Settled) != 0 {
		t.Errorf("a Controller that took nothing says %+v", todo)
	}
	w.worker("a", nil)
	group := w.workers[0].cons.group
	if todo := group.Act(w.now); len(todo.Actions)+len(todo.Starts) != 0 {
		t.Errorf("a worker that took nothing says %+v", todo)
	}
	w.ctl.fail(StageStore, nil)
	w.ctl.Take(w.now, Start{})
	if todo := w.ctl.Act(w.now); len(todo.Actions) != 0 {
		t.Errorf("a Controller that has ended says %+v", todo)
	}
}
