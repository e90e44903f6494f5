package delivery

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// groupRig is a worker that pulls from several flows, whose controllers the test plays by hand.
type groupRig struct {
	t            *testing.T
	now          Now
	group        *ConsumerGroup
	conns        ConnID
	flows        map[string]*flowRig
	running      map[string]StartHandler // by MessageID
	order        []string                // flow/MessageID in the order of their starts
	cancels      int
	drained      int
	orphansEnded []string
	warnings     []ProducersEvicted
	again        []ConnID // streams that the group wants to be opened anew
}

// flowRig is the controller of one flow.
type flowRig struct {
	conn    ConnID
	binding string
	queue   string // the identity of the flow's data
	epoch   uint64
	window  int
	sent    int64
	demand  int64
	nonce   string
	acks    []protocol.Settlement
	drains  int
	said    []protocol.FromWorker
}

func newGroupRig(t *testing.T, edit func(*ConsumerConfig), flows ...string) *groupRig {
	cfg := DefaultConsumerConfig()
	cfg.HandlerTimeout = time.Minute
	if edit != nil {
		edit(&cfg)
	}
	r := &groupRig{t: t, flows: map[string]*flowRig{}, running: map[string]StartHandler{}}
	r.group = NewConsumerGroup(cfg, protocol.Incarnation{PodUID: "pod", BootNonce: "boot"}, &testRandom{}, flows...)
	for _, flow := range flows {
		r.flows[flow] = &flowRig{window: cfg.Window, queue: flow + "-data", epoch: 1}
	}
	return r
}

// up connects and binds flows, and lets the app answer.
func (r *groupRig) up(flows ...string) *groupRig {
	r.step(AppReady{true})
	for _, flow := range flows {
		r.connect(flow)
		r.bind(flow, flow+"-binding-1", 1)
	}
	return r
}

func (r *groupRig) connect(flow string) {
	r.conns++
	r.flows[flow].conn = r.conns
	r.step(Connected{Conn: r.conns, Flow: flow})
}

func (r *groupRig) bind(flow, binding string, next int64) {
	f := r.flows[flow]
	f.binding, f.sent, f.demand = binding, next-1, 0
	r.hear(flow, protocol.RegistrationAck{
		Session: flow + "-session", Queue: f.queue, Epoch: f.epoch, Nonce: f.nonce, BindingID: binding, Secret: "secret", NextSeq: next, Window: f.window,
		Heartbeat: 2 * time.Second, Deadline: 10 * time.Second,
	})
}

func (r *groupRig) hear(flow string, m protocol.ToWorker) {
	r.step(FromController{Conn: r.flows[flow].conn, Message: m})
}

// deliver sends jobs with the binding's next sequences; their store sequences are the same.
func (r *groupRig) deliver(flow string, ids ...string) {
	f := r.flows[flow]
	frame := protocol.SequencedMessage{BindingID: f.binding}
	for _, id := range ids {
		f.sent++
		frame.Deliveries = append(frame.Deliveries, protocol.Delivery{WorkerSeq: f.sent, StoreSeq: f.sent, Attempt: 1, Job: newJob(id)})
	}
	r.hear(flow, frame)
}

func (r *groupRig) step(ev ConsumerEvent) {
	r.t.Helper()
	for _, a := range r.group.Step(r.now, ev) {
		switch a := a.(type) {
		case ToController:
			r.say(a)
		case StartHandler:
			id := a.Delivery.Job.MessageID
			if _, twice := r.running[id]; twice {
				r.t.Fatalf("I-9: %s runs twice", id)
			}
			r.running[id] = a
			r.order = append(r.order, a.Flow+"/"+id)
		case CancelHandler:
			r.cancels++
		case Reconnect:
			r.again = append(r.again, a.Conn)
		case ProducersEvicted:
			r.warnings = append(r.warnings, a)
		case OrphanEnded:
			r.orphansEnded = append(r.orphansEnded, a.MessageID)
		case Drained:
			r.drained++
		default:
			r.t.Fatalf("unknown action %T", a)
		}
	}
}

func (r *groupRig) say(a ToController) {
	r.t.Helper()
	for _, f := range r.flows {
		if f.conn != a.Conn {
			continue
		}
		f.said = append(f.said, a.Message)
		switch m := a.Message.(type) {
		case protocol.RegisterConsumer:
			f.nonce = m.Nonce
		case protocol.Request:
			f.demand = m.RequestUpTo
		case protocol.Ack:
			f.acks = append(f.acks, m.Settlements...)
		case protocol.Drain:
			f.drains++
		}
		return
	}
	r.t.Fatalf("message %T to nobody", a.Message)
}

// finish ends handlers in success and lets their batch go out.
func (r *groupRig) finish(ids ...string) { r.end(protocol.Confirmed, ids...) }

func (r *groupRig) end(outcome protocol.Outcome, ids ...string) {
	r.t.Helper()
	for _, id := range ids {
		a, ok := r.running[id]
		if !ok {
			r.t.Fatalf("%s does not run", id)
		}
		delete(r.running, id)
		r.step(HandlerDone{Run: a.Run, Outcome: outcome})
	}
	r.advance(5 * time.Millisecond)
}

func (r *groupRig) takeOver(flow string, upTo int64) {
	r.hear(flow, protocol.SettledAck{BindingID: r.flows[flow].binding, UpTo: upTo})
}

// advance lets time pass, stopping at every deadline.
func (r *groupRig) advance(d time.Duration) {
	r.t.Helper()
	for end := r.now + d; ; {
		next, ok := r.group.NextDeadline()
		if !ok || next > end {
			r.now = end
			return
		}
		r.now = max(r.now, next)
		r.step(ConsumerTick{})
	}
}

// beat keeps the controllers of flows alive for d.
func (r *groupRig) beat(d time.Duration, flows ...string) {
	r.t.Helper()
	for end := r.now + d; r.now < end; {
		r.advance(min(time.Second, end-r.now))
		for _, flow := range flows {
			r.hear(flow, protocol.Heartbeat{BindingRef: protocol.BindingRef{BindingID: r.flows[flow].binding}})
		}
	}
}

func (r *groupRig) outcomes(flow string) (out []string) {
	for _, s := range r.flows[flow].acks {
		out = append(out, fmt.Sprintf("%s %v", s.MessageID, s.Outcome))
	}
	return out
}

func (r *groupRig) equal(what string, got, want any) {
	r.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func ids(prefix string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprint(prefix, i+1))
	}
	return out
}

func TestGroupSharesTheSlotsInTurn(t *testing.T) {
	r := newGroupRig(t, func(c *ConsumerConfig) { c.Window, c.Concurrency = 8, 2 }, "a", "b", "c").up("a", "b", "c")
	r.deliver("a", ids("a", 8)...) // a fills its window first
	r.deliver("b", ids("b", 3)...)
	r.deliver("c", ids("c", 1)...)
	for len(r.running) > 0 {
		first := slices.MinFunc(slices.Collect(mapsKeys(r.running)), func(x, y string) int {
			return int(r.running[x].Run) - int(r.running[y].Run)
		})
		r.finish(first)
	}
	r.equal("starts", r.order, []string{
		"a/a1", "a/a2", "b/b1", "c/c1", "a/a3", "b/b2", "a/a4", "b/b3", "a/a5", "a/a6", "a/a7", "a/a8",
	})
	st := r.group.Status(r.now)
	r.equal("confirmed per flow", []uint64{st.Flows[0].Confirmed, st.Flows[1].Confirmed, st.Flows[2].Confirmed}, []uint64{8, 3, 1})
	r.equal("confirmed in sum", st.Confirmed, uint64(12))
}

func TestGroupNeverExceedsTheWorkersConcurrency(t *testing.T) {
	r := newGroupRig(t, func(c *ConsumerConfig) { c.Concurrency = 3 }, "a", "b").up("a", "b")
	r.deliver("a", ids("a", 10)...)
	r.deliver("b", ids("b", 10)...)
	for range 15 {
		if got := r.group.Status(r.now).Running; got > 3 || got != len(r.running) {
			t.Fatalf("%d handlers run, the status says %d", len(r.running), got)
		}
		for id := range r.running {
			r.finish(id)
			break
		}
	}
}

// I-9: one running set for all flows of a worker. The second flow's job waits elsewhere and costs no attempt.
func TestGroupNeverRunsOneMessageIDOfTwoFlowsAtOnce(t *testing.T) {
	r := newGroupRig(t, func(c *ConsumerConfig) { c.Concurrency = 4 }, "a", "b").up("a", "b")
	r.deliver("a", "same")
	r.deliver("b", "same", "other")
	r.advance(10 * time.Millisecond)
	r.equal("starts", r.order, []string{"a/same", "b/other"})
	r.equal("what b hears", r.outcomes("b"), []string{"same delayed"})
	r.finish("same")
	r.equal("what a hears", r.outcomes("a"), []string{"same confirmed"})

	// Neither flow's outcome answers for the other's job.
	r.deliver("b", "same")
	r.equal("starts", r.order, []string{"a/same", "b/other", "b/same"})
}

func TestGroupKeepsOneFlowsTroubleToItself(t *testing.T) {
	r := newGroupRig(t, func(c *ConsumerConfig) { c.Concurrency = 4 }, "a", "b").up("a", "b")
	r.deliver("a", "a1")
	r.hear("b", protocol.BindingEnded{BindingID: "b-binding-1", Code: protocol.RefusedSuspended, RetryAfter: time.Minute})
	r.beat(30*time.Second, "a")
	r.deliver("a", "a2")
	r.finish("a1", "a2")
	r.equal("what a hears", r.outcomes("a"), []string{"a1 confirmed", "a2 confirmed"})
	st := r.group.Status(r.now)
	r.equal("registered", []bool{st.Registered, st.Flows[0].Registered, st.Flows[1].Registered}, []bool{false, true, false})
	r.equal("the reason", st.LastRefusal, "b: suspended: ")

	// A producer that never answers is dialled again; the other's stream stays.
	r.beat(2*time.Minute, "a")
	r.equal("streams given up", slices.Contains(r.again, r.flows["a"].conn), false)
}

func TestGroupDoubtConcernsOneFlow(t *testing.T) {
	r := newGroupRig(t, func(c *ConsumerConfig) { c.Concurrency = 1 }, "a", "b").up("a", "b")
	r.deliver("a", "a1", "a2")
	r.deliver("b", "b1")
	r.beat(8*time.Second, "b") // a has been silent for more than 0.7 of its deadline
	r.finish("a1")
	r.finish("b1")
	r.equal("starts", r.order, []string{"a/a1", "b/b1"})
	r.hear("a", protocol.Heartbeat{BindingRef: protocol.BindingRef{BindingID: "a-binding-1"}})
	r.equal("starts", r.order, []string{"a/a1", "b/b1", "a/a2"})
}

func TestGroupCordonsAndDrainsAllFlowsAtOnce(t *testing.T) {
	r := newGroupRig(t, func(c *ConsumerConfig) { c.Concurrency = 1 }, "a", "b").up("a", "b")
	r.deliver("a", "a1")
	r.step(Cordon{})
	r.equal("cordoned while busy", r.group.Status(r.now).Cordoned, false)
	r.deliver("b", "b1", "b2")

	r.step(Cordon{Force: true})
	r.equal("drains", []int{r.flows["a"].drains, r.flows["b"].drains}, []int{1, 1})
	r.advance(10 * time.Millisecond)
	r.equal("what b hears", r.outcomes("b"), []string{"b2 handed-back", "b1 handed-back"})
	r.takeOver("b", 2)
	r.equal("drained early", r.drained, 0)
	r.finish("a1")
	r.equal("drained before the controller took it over", r.drained, 0)
	r.takeOver("a", 1)
	r.equal("drained", r.drained, 1)

	// Nothing starts until it is lifted, and that registers anew in every flow.
	r.deliver("b", "b3")
	r.step(Uncordon{})
	for _, flow := range []string{"a", "b"} {
		last := r.flows[flow].said[len(r.flows[flow].said)-1]
		if _, ok := last.(protocol.RegisterConsumer); !ok {
			t.Fatalf("%s hears %T after the drain was lifted", flow, last)
		}
	}

	// An idle worker is cordoned in one step.
	r.takeOver("b", 3)
	r.step(Cordon{})
	st := r.group.Status(r.now)
	r.equal("cordoned while idle", []bool{st.Cordoned, st.Draining}, []bool{true, false})
}

// B-088: the app is the worker's, not a flow's.
func TestGroupAppRestartEndsTheHandlersOfAllFlows(t *testing.T) {
	r := newGroupRig(t, func(c *ConsumerConfig) { c.Concurrency = 2 }, "a", "b").up("a", "b")
	r.deliver("a", "a1")
	r.deliver("b", "b1")
	clear(r.running)
	r.step(AppRestarted{})
	r.advance(10 * time.Millisecond)
	r.equal("what a hears", r.outcomes("a"), []string{"a1 nacked"})
	r.equal("what b hears", r.outcomes("b"), []string{"b1 nacked"})

	r.step(AppReady{false})
	r.deliver("a", "a2")
	r.deliver("b", "b2")
	r.advance(10 * time.Millisecond)
	r.equal("b gets back", r.outcomes("b"), []string{"b1 nacked", "b2 handed-back"})
	r.equal("a gets back", r.outcomes("a"), []string{"a1 nacked", "a2 handed-back"})
}

func TestGroupDropsWhatBelongsToNoFlow(t *testing.T) {
	r := newGroupRig(t, nil, "a").up("a")
	r.step(Connected{Conn: 99, Flow: "nobody's"})
	r.step(FromController{Conn: 99, Message: protocol.Heartbeat{}})
	r.step(HandlerDone{Run: 99})
	r.equal("dropped", r.group.Status(r.now).Dropped, map[string]uint64{"unknown-flow": 1, "stale-connection": 1, "unknown-run": 1})
}

// An idle group is as quiet as an idle Consumer, per flow (B-110).
func TestGroupIdleControlTraffic(t *testing.T) {
	r := newGroupRig(t, nil, "a", "b").up("a", "b")
	r.beat(time.Minute, "a", "b")
	before := len(r.flows["a"].said)
	r.beat(10*time.Minute, "a", "b")
	if got := len(r.flows["a"].said) - before; got > 360 {
		t.Fatalf("%d messages to one flow in ten idle minutes", got)
	}
}
