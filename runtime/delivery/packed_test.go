package delivery

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// Whatever is pushed, popped and removed, the packed jobs are those of a list.
func TestPackedJobsAreThoseOfAList(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var packed packedJobs
	var list []packedJob
	seq := int64(0)
	push := func(to *packedJobs) {
		seq += 1 + int64(random.IntN(3))*int64(random.IntN(1000))
		j := packedJob{seq: seq, size: random.Int32N(1 << 20), reloaded: random.IntN(2) == 0}
		if random.IntN(4) == 0 {
			j.attempts, j.uncounted = random.Int32(), random.Int32N(3)
		}
		to.push(j)
		list = append(list, j)
	}
	check := func(j packedJob) {
		t.Helper()
		if got, ok := packed.find(j.seq); !ok || got != j {
			t.Fatalf("found %+v (%t), want %+v", got, ok, j)
		}
	}
	for step := range 20_000 {
		switch deed := random.IntN(100); {
		case deed < 50 || len(list) == 0:
			push(&packed)
		case deed < 60:
			if got := packed.pop(); got != list[0] {
				t.Fatalf("step %d: popped %+v, want %+v", step, got, list[0])
			}
			list = list[1:]
		case deed < 90:
			i := random.IntN(len(list))
			check(list[i])
			packed.remove(list[i].seq)
			if _, ok := packed.find(list[i].seq); ok {
				t.Fatalf("step %d: found what was removed", step)
			}
			list = slices.Delete(list, i, i+1)
		case deed < 91:
			var newer packedJobs
			for range random.IntN(600) {
				push(&newer)
			}
			packed.join(newer)
		}
		first := int64(0)
		if len(list) > 0 {
			first = list[0].seq
			check(list[random.IntN(len(list))])
		}
		if packed.jobs != len(list) || packed.first() != first {
			t.Fatalf("step %d: %d jobs from %d, want %d from %d", step, packed.jobs, packed.first(), len(list), first)
		}
		if _, ok := packed.find(seq + 1); ok {
			t.Fatalf("step %d: found what never was", step)
		}
	}
}

// A million jobs take a few bytes each.
func TestPackedJobsAreSmall(t *testing.T) {
	const jobs = 1_000_000
	var packed packedJobs
	for seq := range int64(jobs) {
		packed.push(packedJob{seq: seq + 1, size: 4096})
	}
	bytes := 0
	for n := packed.runs.first; n < packed.runs.end(); n++ {
		bytes += cap(packed.runs.at(n).bytes)
	}
	if most := 8 * jobs; bytes > most {
		t.Errorf("%d bytes for %d jobs, at most %d are wanted", bytes, jobs, most)
	}
}

// A long backlog keeps a bounded number of jobs in memory, and all of them come by in their order.
func TestALongBacklogIsPacked(t *testing.T) {
	const jobs = 3 * fewWarm
	w := newWorld(t, func(c *ControllerConfig) { c.MemoryBytes = 1 << 16 })
	w.submit(w.producer(1000), "", jobs)
	w.equal("backlog", w.ctl.Stats().BacklogJobs, jobs)
	w.equal("oldest", w.ctl.Stats().OldestBacklogStoreSeq, 1)
	if n := len(w.ctl.jobs); n > fewWarm {
		t.Errorf("%d jobs are in memory, at most %d are wanted", n, fewWarm)
	}
	a := w.worker("a", nil).serve(confirmAll)
	w.advance(time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, jobs)
	w.equal("held", w.holds(), 0)
	if !slices.IsSortedFunc(a.starts, func(x, y protocol.Delivery) int { return int(x.StoreSeq - y.StoreSeq) }) {
		t.Error("the jobs were not started in store order")
	}
}

// A packed job that is submitted again is the same one, also while it is on its way into memory.
func TestAPackedJobIsStoredOnce(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.MemoryBytes = 1 })
	p := w.producer(10)
	p.submit(newJob("1"), newJob("2"), newJob("3"))
	w.equal("packed", w.ctl.backlog.packed.jobs, 3)
	p.submit(newJob("3"))
	w.equal("backlog", w.ctl.Stats().BacklogJobs, 3)
	w.holdReads = true
	a := w.worker("a", nil).serve(confirmAll)
	w.equal("on their way", len(w.ctl.backlog.unnamed), 3)
	p.submit(newJob("2"))
	w.equal("backlog", w.ctl.Stats().BacklogJobs, 3)
	w.release()
	w.advance(time.Second)
	w.equal("started", a.order, []string{"1", "2", "3"})
	w.equal("confirmed", w.ctl.Stats().Confirmed, 3)
	w.equal("held", w.holds(), 0)
}

// What a worker claims of the packed jobs is taken out of them wherever they are: held by the gate, packed, or on their way into memory.
func TestPackedJobsAreClaimed(t *testing.T) {
	for name, outcome := range map[string]protocol.Outcome{"confirmed": protocol.Confirmed, "running": 0} {
		for where, places := range map[string][]int{"held": {3, 0, 0}, "packed": {0, 3, 0}, "on its way": {0, 0, 3}} {
			t.Run(name+", "+where, func(t *testing.T) {
				starts := []int{3, 3}
				if where == "on its way" {
					starts = []int{2, 1}
				}
				w := newWorld(t, func(c *ControllerConfig) { c.MemoryBytes = 1 })
				p := w.producer(10)
				a := w.worker("a", func(c *ConsumerConfig) { c.Window, c.Concurrency = 2, 2 })
				p.submit(newJob("1"), newJob("2"), newJob("3"))
				w.equal("started", a.order, []string{"1", "2"})
				a.disconnect()
				if outcome == protocol.Confirmed {
					a.finish("2", outcome)
				}
				w.restart()
				if where != "held" {
					w.advance(w.ctl.cfg.Deadline)
				}
				w.holdReads = where == "on its way"
				other := a
				if w.holdReads {
					other = w.worker("b", func(c *ConsumerConfig) { c.Window = 3 }).serve(confirmAll)
				}
				b := &w.ctl.backlog
				w.equal("held, packed, on their way", []int{b.held.packed.jobs, b.packed.jobs, len(b.unnamed)}, places)
				a.connect()
				w.equal("taken out", w.ctl.Stats().Adopted+w.ctl.Stats().Claimed, 2)
				a.finish("1", protocol.Confirmed)
				if outcome != protocol.Confirmed {
					a.finish("2", protocol.Confirmed)
				}
				w.release()
				a.serve(confirmAll)
				w.advance(time.Minute)
				w.equal("started by a", a.order[:2], []string{"1", "2"})
				w.equal("started in all", []int{len(a.starts), len(other.starts)}, starts)
				w.equal("held", w.holds(), 0)
			})
		}
	}
}
