package delivery

import (
	"maps"
	"slices"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// ConsumerGroup is the machine in the worker sidecar: a Consumer for each flow that the worker pulls from. They share its
// handlers — the slots, and one running set, so that no MessageID runs twice at a time whichever flows it comes by (I-9) — and
// whether the worker takes jobs at all. Each has a stream, a binding, a window and demand of its own, so that what happens to one
// flow stops no other. It is not safe for concurrent use.
type ConsumerGroup struct {
	cfg     ConsumerConfig
	flows   []*Consumer
	turn    int // whose delivery is started next
	running running
	dedup   dedup

	appReady bool
	cordoned bool
	draining bool
	drained  bool

	timers timers
	todo   ConsumerTodo
	acted  bool              // todo is of the last Act
	single []ConsumerAction  // what Step has returned last
	drops  map[string]uint64 // of what belongs to no flow
}

// NewConsumerGroup returns a group that pulls from flows, which are distinct names, at least one. It waits for Connected of each and
// for AppReady. Numbers of cfg that make no sense take their default; Window is each flow's, Concurrency the worker's.
func NewConsumerGroup(cfg ConsumerConfig, inc protocol.Incarnation, rnd Random, flows ...string) *ConsumerGroup {
	g := &ConsumerGroup{cfg: cfg.sane(), timers: newTimers(), drops: map[string]uint64{}}
	g.running.init()
	g.dedup.init(g)
	for _, flow := range flows {
		g.flows = append(g.flows, newConsumer(g, flow, inc, rnd))
	}
	return g
}

// Step applies one event and returns what the host must do, in order: Take and Act in one, with an action for each thing to do. The slice is
// valid until the next Step; the messages in it for good.
func (g *ConsumerGroup) Step(now Now, ev ConsumerEvent) []ConsumerAction {
	g.Take(now, ev)
	todo := g.Act(now)
	clear(g.single)
	g.single = todo.appendTo(g.single[:0])
	return g.single
}

// Take applies one event and leaves what it makes possible to Act, which has to follow: once for all events that came together.
func (g *ConsumerGroup) Take(now Now, ev ConsumerEvent) {
	if g.acted {
		g.todo.reset()
		g.acted = false
	}
	g.handle(now, ev)
}

// Act returns what the host must do after the events taken. It is valid until the next Take; the messages in it for good.
func (g *ConsumerGroup) Act(now Now) *ConsumerTodo {
	if g.acted {
		g.todo.reset()
	}
	g.timers.run(now)
	g.startNext(now)
	for _, c := range g.flows {
		c.flushSoon(now)
		c.topUp(now)
	}
	g.checkDrained()
	g.acted = true
	return &g.todo
}

func (g *ConsumerGroup) handle(now Now, ev ConsumerEvent) {
	switch ev := ev.(type) {
	case ConsumerTick:
	case FromController:
		if c := g.speaking(ev.Conn); c != nil {
			c.fromController(now, ev.Message)
		}
	case HandlerDone:
		if r := g.running.byRun[ev.Run]; r != nil && !r.orphan {
			r.consumer.handlerDone(now, r, ev)
		} else {
			g.drop("unknown-run")
		}
	case Connected:
		if c := g.named(ev.Flow); c != nil {
			c.connect(now, ev.Conn)
		}
	case Disconnected:
		if c := g.connected(ev.Conn); c != nil {
			c.hangUp()
		}
	case AppReady:
		g.setAppReady(now, ev.Ready)
	case AppRestarted:
		g.appRestarted(now)
	case Malformed:
		if c := g.speaking(ev.Conn); c != nil {
			c.drop("malformed-frame")
		}
	case OrphansGone:
		g.endOrphans()
	case Cordon:
		g.cordon(now, ev.Force)
	case Uncordon:
		g.uncordon(now)
	case ConsumerPaused:
		for _, c := range g.flows {
			c.wake(now)
		}
	case ReconfigureConsumer:
		g.reconfigure(now, ev.Config)
	case HoldClaims:
		if c := g.named(ev.Flow); c != nil {
			c.hold(now, ev.Claims)
		}
	}
}

func (g *ConsumerGroup) drop(reason string) { g.drops[reason]++ }

// connected returns the Consumer whose open stream conn is, or nil.
func (g *ConsumerGroup) connected(conn ConnID) *Consumer {
	for _, c := range g.flows {
		if c.connected && c.conn == conn {
			return c
		}
	}
	return nil
}

// speaking returns the Consumer that a message on conn is for. Where the stream has ended, it counts as dropped.
func (g *ConsumerGroup) speaking(conn ConnID) *Consumer {
	c := g.connected(conn)
	if c == nil {
		g.drop("stale-connection")
	}
	return c
}

// named returns the Consumer of a flow. An event for a flow that the worker does not pull from counts as dropped.
func (g *ConsumerGroup) named(flow string) *Consumer {
	for _, c := range g.flows {
		if c.flow == flow {
			return c
		}
	}
	g.drop("unknown-flow")
	return nil
}

// NextDeadline returns when the host must send a ConsumerTick at the latest; false means that only an event can change anything.
func (g *ConsumerGroup) NextDeadline() (Now, bool) { return g.timers.next() }

// accepting reports whether deliveries may be started at all.
func (g *ConsumerGroup) accepting() bool { return g.appReady && !g.cordoned }

// startNext gives free slots to the flows in turn, one delivery each, so that a flow whose window is full of jobs does not keep
// another's from starting.
func (g *ConsumerGroup) startNext(now Now) {
	for without := 0; without < len(g.flows); {
		c := g.flows[g.turn]
		if g.turn++; g.turn == len(g.flows) {
			g.turn = 0
		}
		if c.startNext(now) {
			without = 0
		} else {
			without++
		}
	}
}

// appRestarted ends every running handler in failure: the app that ran them is gone (B-088).
func (g *ConsumerGroup) appRestarted(now Now) {
	g.endOrphans()
	for _, r := range g.running.ordered() {
		r.consumer.handlerDone(now, r, HandlerDone{
			Run: r.id, Outcome: protocol.Nacked, Reason: "the app restarted while it ran the job",
		})
	}
}

func (g *ConsumerGroup) reconfigure(now Now, cfg ConsumerConfig) {
	before := g.cfg
	g.cfg = cfg.sane()
	g.budget(now)
	for _, c := range g.flows {
		c.memoryLimit = max(c.memoryLimit, memoryOf(&g.cfg))
		if before.Window != g.cfg.Window && c.connected {
			c.register(now)
		}
	}
}

// unsettled counts what this worker has on its hands, of all flows.
func (g *ConsumerGroup) unsettled() int {
	sum := 0
	for _, c := range g.flows {
		sum += c.unsettled()
	}
	return sum
}

// firstRegistration begins the idleness of a worker that never had a binding before.
func (g *ConsumerGroup) firstRegistration(now Now) {
	if !slices.ContainsFunc(g.flows, func(c *Consumer) bool { return c.registration.ever }) {
		g.running.idleSince = max(g.running.idleSince, now)
	}
}

// Status returns a snapshot that shares nothing with the group.
func (g *ConsumerGroup) Status(now Now) ConsumerStatus {
	sum := ConsumerStatus{
		Registered: len(g.flows) > 0, Dropped: map[string]uint64{},
		Cordoned: g.cordoned, Draining: g.draining, Drained: g.drained, AppReady: g.appReady, IdleSince: g.running.idleSince,
		Orphaned: g.running.orphans, TrackedProducers: len(g.dedup.entries), EvictedProducers: g.dedup.evicted, IdleProducers: g.dedup.swept,
	}
	maps.Copy(sum.Dropped, g.drops)
	for _, c := range g.flows {
		part := c.status(now)
		sum.add(part)
		sum.Flows = append(sum.Flows, part)
	}
	if len(g.flows) == 1 {
		sum.BindingID, sum.Session, sum.LastRefusal = sum.Flows[0].BindingID, sum.Flows[0].Session, sum.Flows[0].LastRefusal
	}
	sum.Idle = sum.EverRegistered && sum.Unsettled == 0
	return sum
}

// Work returns what the worker has on its hands of one flow, by its place in the order that the group was made with.
func (g *ConsumerGroup) Work(now Now, flow int) Work {
	c := g.flows[flow]
	return Work{Running: c.runs, Buffered: c.sub.buffered, Unsettled: c.unsettled(), Registered: c.inTouch(now)}
}

// Draining reports whether the worker ends what it has and takes nothing new.
func (g *ConsumerGroup) Draining() bool { return g.draining }

// add adds one flow's part to the status of the worker.
func (s *ConsumerStatus) add(part ConsumerStatus) {
	s.Registered = s.Registered && part.Registered
	s.EverRegistered = s.EverRegistered || part.EverRegistered
	s.Running += part.Running
	s.Buffered += part.Buffered
	s.Unsettled += part.Unsettled
	s.Started += part.Started
	s.Confirmed += part.Confirmed
	s.Nacked += part.Nacked
	s.HandedBack += part.HandedBack
	s.Abandoned += part.Abandoned
	s.Duplicates += part.Duplicates
	s.OlderEpochs += part.OlderEpochs
	s.Rivals += part.Rivals
	for reason, n := range part.Dropped {
		s.Dropped[reason] += n
	}
	if part.LastRefusal != "" {
		if s.LastRefusal != "" {
			s.LastRefusal += "; "
		}
		s.LastRefusal += part.Flow + ": " + part.LastRefusal
	}
}
