package delivery

import (
	"fmt"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// meet binds a flow to a producer with other data, as after the flow was made anew.
func (r *groupRig) meet(flow, queue string) {
	r.flows[flow].queue = queue
	r.connect(flow)
	r.bind(flow, queue+"-binding", 1)
}

func (r *groupRig) tracked() (queues []string) {
	for p := r.group.dedup.oldest; p != nil; p = p.newer {
		queues = append(queues, p.key.queue)
	}
	r.equal("the list and the map", len(queues), len(r.group.dedup.entries))
	return queues
}

func budget(maxProducers int, idle time.Duration) func(*ConsumerConfig) {
	return func(c *ConsumerConfig) { c.MaxProducers, c.ProducerIdle, c.Concurrency = maxProducers, idle, 4 }
}

// B-210, A-029: the least recently heard goes, which is not the first that came.
func TestTheLeastRecentlyHeardProducerIsEvicted(t *testing.T) {
	r := newGroupRig(t, budget(3, 0), "a", "b").up("a", "b")
	r.meet("b", "b-data-2")
	r.equal("tracked", r.tracked(), []string{"a-data", "b-data", "b-data-2"})
	r.hear("a", protocol.Heartbeat{BindingRef: protocol.BindingRef{BindingID: "a-binding-1"}}) // the touch between insert and overflow
	r.meet("b", "b-data-3")
	r.equal("tracked after the overflow", r.tracked(), []string{"b-data-2", "a-data", "b-data-3"})
	st := r.group.Status(r.now)
	r.equal("figures", []any{st.TrackedProducers, st.EvictedProducers, st.IdleProducers}, []any{3, uint64(1), uint64(0)})
	r.equal("the flow that spoke", st.Flows[0].Registered, true)
}

// one entry for each producer, however many jobs and incarnations it has.
func TestOneEntryForEachProducer(t *testing.T) {
	r := newGroupRig(t, budget(0, 0), "a").up("a")
	for i := range 5 {
		r.deliver("a", ids(fmt.Sprint("x", i, "-"), 4)...)
		for id := range r.running {
			r.finish(id)
		}
		r.connect("a")
		r.bind("a", fmt.Sprint("a-binding-", i+2), 1)
	}
	r.equal("tracked", r.tracked(), []string{"a-data"})
}

// the sweep runs on the period of the limit itself, so that a silent producer is remembered for one to two of them; one that is
// heard is not swept.
func TestASilentProducerIsSweptWithinTwoPeriods(t *testing.T) {
	const idle = 10 * time.Minute
	r := newGroupRig(t, budget(0, idle), "a", "b").up("a", "b") // the sweeps run every 10 minutes from here
	r.beat(3*time.Minute, "a", "b")
	r.meet("b", "b-data-2") // b-data speaks no more: 7 minutes old at the first sweep
	r.beat(8*time.Minute, "a", "b")
	r.equal("after 1.1 periods", r.tracked(), []string{"b-data", "a-data", "b-data-2"})
	r.beat(8*time.Minute, "a", "b")
	r.equal("after 1.9 periods", r.tracked(), []string{"b-data", "a-data", "b-data-2"})
	r.beat(2*time.Minute, "a", "b")
	r.equal("after 2.1 periods", r.tracked(), []string{"a-data", "b-data-2"})
	r.equal("swept", r.group.Status(r.now).IdleProducers, uint64(1))
	r.equal("warnings of what is ordinary", len(r.warnings), 0)
}

// B-212: no limit is no timer.
func TestWithoutALimitNothingIsSwept(t *testing.T) {
	r := newGroupRig(t, budget(0, 0), "a").up("a")
	r.step(Disconnected{r.flows["a"].conn})
	if at, armed := r.group.NextDeadline(); armed {
		t.Fatalf("a worker without a stream wants to be woken at %v", at)
	}
	r.step(ReconfigureConsumer{Config: ConsumerConfig{ProducerIdle: time.Minute}})
	if at, armed := r.group.NextDeadline(); !armed || at != time.Minute {
		t.Fatalf("with a limit it wants to be woken at %v (%v)", at, armed)
	}
	r.step(ReconfigureConsumer{Config: ConsumerConfig{}})
	if at, armed := r.group.NextDeadline(); armed {
		t.Fatalf("after the limit was lifted it wants to be woken at %v", at)
	}
	r.now += 1000 * time.Hour
	r.step(ConsumerTick{})
	r.equal("tracked after a thousand hours", r.tracked(), []string{"a-data"})
}

// B-213, A-033: the counter is exact, the warnings are paced.
func TestEvictionsAreCountedExactlyAndWarnedOfOnceAMinute(t *testing.T) {
	r := newGroupRig(t, budget(1, 0), "a").up("a")
	for i := range 600 { // ten a second
		r.now += 100 * time.Millisecond
		r.meet("a", fmt.Sprint("flood-", i))
	}
	r.equal("evicted", r.group.Status(r.now).EvictedProducers, uint64(600))
	r.equal("warnings in a minute", r.warnings, []ProducersEvicted{{1, 1}})
	r.now += time.Minute
	r.meet("a", "one more")
	r.equal("warnings", r.warnings, []ProducersEvicted{{1, 1}, {600, 1}})
}

// B-214, A-035: what was finished and not taken over runs once more after its producer was forgotten, and is not lost; without the
// eviction it does not run.
func TestAnEvictionCostsOneMoreRun(t *testing.T) {
	for name, tc := range map[string]struct {
		limit int
		runs  int
	}{"remembered": {3, 1}, "evicted": {1, 2}} {
		t.Run(name, func(t *testing.T) {
			r := newGroupRig(t, budget(tc.limit, 0), "a").up("a")
			r.deliver("a", "job")
			r.finish("job") // and the producer goes away without having taken it over
			r.meet("a", "other-data")
			r.flows["a"].epoch++
			r.meet("a", "a-data")
			r.deliver("a", "job")
			if tc.runs == 2 {
				r.finish("job")
			}
			r.equal("runs", len(r.order), tc.runs)
			r.advance(10 * time.Millisecond)
			r.equal("outcomes", r.outcomes("a"), []string{"job confirmed", "job confirmed"})
		})
	}
}

// A producer that is forgotten while the worker talks to it costs that flow its binding and nothing else: it registers anew on another
// stream, what runs goes on and answers for the repeated delivery.
func TestAForgottenLiveProducerIsMetAnew(t *testing.T) {
	r := newGroupRig(t, budget(1, 0), "a", "b").up("a")
	r.deliver("a", "a1", "a2")
	conn := r.flows["a"].conn
	r.step(ReconfigureConsumer{Config: ConsumerConfig{Window: 50, Concurrency: 4, MaxProducers: 1}})
	r.connect("b")
	r.bind("b", "b-binding-1", 1)
	r.equal("streams given up", r.again, []ConnID{conn})
	r.equal("registered", r.group.Status(r.now).Flows[0].Registered, false)
	r.equal("running", r.group.Status(r.now).Running, 2)

	r.step(ReconfigureConsumer{Config: ConsumerConfig{Window: 50, Concurrency: 4}})
	r.connect("a")
	r.bind("a", "a-binding-1", 1)
	r.deliver("a", "a1", "a2") // sent again, for nothing was settled
	r.finish("a1", "a2")
	r.equal("starts", r.order, []string{"a/a1", "a/a2"})
	r.equal("outcomes", r.outcomes("a"), []string{"a1 confirmed", "a2 confirmed"})
}

// A handler that ends after its producer was forgotten brings it back: its outcome is not lost.
func TestAHandlerOutlivesItsProducersEntry(t *testing.T) {
	r := newGroupRig(t, func(c *ConsumerConfig) { c.ProducerIdle, c.HandlerTimeout = time.Minute, 0 }, "a").up("a")
	r.deliver("a", "long")
	r.step(Disconnected{r.flows["a"].conn})
	r.advance(3 * time.Minute)
	r.equal("tracked while it runs", r.tracked(), []string(nil))
	r.finish("long")
	r.equal("tracked after its end", r.tracked(), []string{"a-data"})
	r.connect("a")
	r.bind("a", "a-binding-2", 1)
	r.deliver("a", "long")
	r.advance(10 * time.Millisecond)
	r.equal("starts", r.order, []string{"a/long"})
	r.equal("outcomes", r.outcomes("a"), []string{"long confirmed"})
}

// A-012, B-217: two flows that show the same data do not reset each other.
func TestTwoFlowsOfOneData(t *testing.T) {
	r := newGroupRig(t, budget(0, 0), "a", "b")
	r.flows["b"].queue = "a-data"
	r.up("a", "b")
	r.equal("entries", len(r.group.dedup.entries), 2)
	r.deliver("a", "a1")
	r.deliver("b", "b1")
	r.finish("a1", "b1")
	r.equal("outcomes", []any{r.outcomes("a"), r.outcomes("b")}, []any{[]string{"a1 confirmed"}, []string{"b1 confirmed"}})
}

// B-215, A-032: under a gap that never closes no more is handled or settled than the largest window above it.
func TestAGapThatNeverClosesBoundsWhatIsAboveIt(t *testing.T) {
	const bound = protocol.MaxFlowControlWindow
	r := newGroupRig(t, func(c *ConsumerConfig) { c.Window, c.Concurrency = 100, 1 }, "a").up("a")
	f := r.flows["a"]
	highest, settled := int64(0), 0
	f.sent = 1 // the first never arrives
	for range 3 * bound / 100 {
		for f.sent < f.demand {
			r.deliver("a", fmt.Sprint("job-", f.sent+1))
			highest = f.sent
		}
		r.deliver("a", "beyond") // what was not asked for
		f.sent--
		// Jobs start in order, so nothing above the gap runs: all of it goes back, and is taken over.
		r.hear("a", protocol.HandBack{BindingID: f.binding, Count: bound})
		r.advance(10 * time.Millisecond)
		above := make([]int64, 0, len(f.acks))
		for _, s := range f.acks {
			above = append(above, s.WorkerSeq)
		}
		settled += len(above)
		f.acks = nil
		r.hear("a", protocol.SettledAck{BindingID: f.binding, Above: above})
		r.advance(time.Second)
	}
	r.equal("handlers", len(r.order), 0)
	if highest != bound || settled != bound-1 {
		t.Errorf("%d settled up to sequence %d, the bound is %d", settled, highest, bound)
	}
	if n := r.group.flows[0].sub.entries.len(); n > bound {
		t.Errorf("%d sequences are tracked, the bound is %d", n, bound)
	}
}

// B-217: two producers under one name that do not know of each other show by a second session of one epoch, or by a return to a queue that
// was left. Both are followed and counted; a producer that was replaced is not followed (B-072).
func TestTwoProducersUnderOneNameAreReported(t *testing.T) {
	r := newGroupRig(t, budget(0, 0), "a").up("a")
	again := func(session, queue string, epoch uint64) {
		f := r.flows["a"]
		r.connect("a")
		r.hear("a", protocol.RegistrationAck{
			Session: session, Queue: queue, Epoch: epoch, Nonce: f.nonce, BindingID: session + "-binding", Secret: "secret", NextSeq: 1,
			Window: f.window, Heartbeat: 2 * time.Second, Deadline: 10 * time.Second,
		})
	}
	counted := func() []uint64 {
		s := r.group.Status(r.now)
		return []uint64{s.Rivals, s.OlderEpochs}
	}
	again("second", "a-data", 2)
	r.equal("a successor is no rival", counted(), []uint64{0, 0})
	again("third", "a-data", 2)
	r.equal("another session of one epoch", counted(), []uint64{1, 0})
	again("fourth", "other-data", 1)
	again("fifth", "a-data", 3)
	r.equal("a return to a queue that was left", counted(), []uint64{2, 0})
	again("sixth", "a-data", 2)
	r.equal("an older epoch", counted(), []uint64{2, 1})
	r.equal("which is not followed", r.group.Status(r.now).Registered, false)
}
