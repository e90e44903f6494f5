package simulation

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/queue"
)

// producer is one process that hosts a Controller.
type producer struct {
	w       *flow
	name    string
	machine Controller
	clock   localClock
	view    *controllerView

	streams     map[delivery.ConnID]*stream
	attachments map[delivery.ConnID]*attachment
	conns       delivery.ConnID

	epoch       queue.Epoch
	armed       time.Duration // when the next tick is planned, negative if none is
	late        int           // ticks in a row after which the machine still wanted one at once
	paused      bool
	pausedAt    time.Duration
	inbox       []func()
	gone        bool   // the process has ended
	failed      bool   // the machine has failed; the process lives and serves nobody
	lastEffects uint64 // on the queue, of anyone, when the process ended
	crashIn     int    // crash between the actions of the step that brings this to zero; negative is never
	config      delivery.ControllerConfig
	deciding    map[queue.JobRef]bool // dead letters that a decision is being written about
	resolving   bool                  // a try to find out about claims is under way; the next ones wait
	questions   []delivery.ResolveClaims
	tried       map[triedLetter]bool // confirms of dead letters that may have happened
}

func (w *flow) bootProducer() {
	p := &producer{
		w: w, name: w.name("producer"), clock: w.newClock(), armed: -1, crashIn: -1, config: w.tunables.controller,
		streams: map[delivery.ConnID]*stream{}, attachments: map[delivery.ConnID]*attachment{},
		deciding: map[queue.JobRef]bool{}, tried: map[triedLetter]bool{},
	}
	p.view = newControllerView(p)
	p.machine = w.machines.Controller(p.config, &machineRandom{owner: p.name, rng: w.childRandom()})
	w.producers = append(w.producers, p)
	w.note(p.name, "boots")
	p.take(delivery.Start{})
}

func (w *world) childRandom() *rand.Rand {
	return rand.New(rand.NewPCG(w.rng.Uint64(), w.rng.Uint64()))
}

// active is the producer that the flow's address leads to, if there is one.
func (w *flow) active() *producer {
	if len(w.producers) == 0 {
		return nil
	}
	return w.producers[len(w.producers)-1]
}

// route is the producer that a dial reaches: during an overlap now and then the old one.
func (w *flow) route() *producer {
	if len(w.producers) > 1 && !w.healing && w.chance(max(0.3, w.profile.Overlap)) {
		return w.producers[w.rng.IntN(len(w.producers))]
	}
	return w.active()
}

// serves reports whether a dial gets through.
func (p *producer) serves() bool { return p != nil && !p.gone && !p.failed && !p.paused }

// awake reports whether the process takes what comes at once. Asking first spares the making of what it would do later.
func (p *producer) awake() bool { return !p.gone && !p.paused }

// receive hands something to the process: at once, when it wakes up, or never.
func (p *producer) receive(what func()) {
	switch {
	case p.gone:
	case p.paused:
		p.inbox = append(p.inbox, what)
	default:
		what()
	}
}

// take steps the machine and executes what it wants.
func (p *producer) take(event delivery.Event) {
	if p.gone || p.w.violation != nil {
		return
	}
	p.w.told(p.name, "<-", event)
	p.view.before(event)
	actions := p.machine.Step(p.clock.read(p.w.now), event)
	p.view.after(event, actions)
	if p.crashIn >= 0 {
		if p.crashIn--; p.crashIn < 0 && len(actions) > 0 {
			actions = actions[:p.w.rng.IntN(len(actions)+1)]
			defer p.crash(ProducerCrashedMidStep)
		}
	}
	for _, a := range actions {
		p.w.told(p.name, "->", a)
		p.do(a)
	}
	p.arm(event)
}

// arm plans the next tick.
func (p *producer) arm(after delivery.Event) {
	deadline, ok := p.machine.NextDeadline()
	if !ok || p.failed {
		return
	}
	at := p.clock.when(deadline)
	if _, tick := after.(delivery.Tick); tick && at <= p.w.now {
		if p.late++; p.late > 3 {
			p.w.violate("I-10", "%s busy loop: after a tick its next deadline is still %v ago", p.name, p.w.now-at)
			return
		}
	} else {
		p.late = 0
	}
	at = max(at, p.w.now)
	if p.armed >= 0 && p.armed <= at {
		return
	}
	p.armed = at
	p.w.timeline.plan(at+p.w.lateness(), func() {
		switch {
		case p.armed != at:
		case p.awake():
			p.tick()
		default:
			p.receive(p.tick)
		}
	})
}

func (p *producer) tick() {
	p.armed = -1
	if deadline, ok := p.machine.NextDeadline(); ok && p.clock.when(deadline) > p.w.now {
		p.arm(nil)
		return
	}
	p.take(delivery.Tick{})
}

func (w *world) lateness() time.Duration {
	if w.healing {
		return 0
	}
	return w.upTo(w.profile.Lateness)
}

func (p *producer) do(action delivery.Action) {
	switch a := action.(type) {
	case delivery.LoadQueue:
		p.load(a)
	case delivery.ApplyBatch:
		p.apply(a)
	case delivery.ReadJobs:
		p.read(a)
	case delivery.ToProducer:
		if at := p.attachments[a.Conn]; at != nil {
			at.toSubmitter(a.Message)
		}
	case delivery.ToWorker:
		if s := p.streams[a.Conn]; s != nil {
			s.toPeer(a.Message)
		}
	case delivery.CloseWorker:
		if s := p.streams[a.Conn]; s != nil {
			// The stream ends after the messages before it, so the worker learns of it later than of them.
			s.endAtPeer(max(0, s.down.last-p.w.now) + time.Millisecond)
			s.endAtProducer(p.w.upTo(20 * time.Millisecond))
		}
	case delivery.JobSettled:
	case delivery.ResolveClaims:
		p.resolve(a)
	case delivery.Failed:
		p.fail(a)
	default:
		p.w.violate("action", "%s: unknown action %T", p.name, action)
	}
}

func (p *producer) forget(s *stream) { delete(p.streams, s.atProducer) }

func (p *producer) nextConn() delivery.ConnID {
	p.conns++
	return p.conns
}

// fail is the end of the machine: its process stays, its streams do not, and a person re-arms the flow if nobody else serves it.
func (p *producer) fail(f delivery.Failed) {
	p.failed = true
	if errors.Is(f.Cause, queue.ErrFenced) {
		p.w.count(FencedFailure)
	}
	p.dropEverybody()
	p.w.plan(time.Second+p.w.upTo(5*time.Second), func() {
		if p.w.active() == p && !p.gone {
			p.w.note("world", "a person re-arms the flow")
			p.end()
			p.w.bootProducer()
		}
	})
}

// dropEverybody ends all streams and attachments, in the order of their ids.
func (p *producer) dropEverybody() {
	for _, id := range sortedKeys(p.streams) {
		s := p.streams[id]
		s.producerKnows = false
		s.endAtPeer(p.w.upTo(200 * time.Millisecond))
	}
	for _, id := range sortedKeys(p.attachments) {
		p.attachments[id].endAtSubmitter(p.w.upTo(200 * time.Millisecond))
	}
	clear(p.streams)
	clear(p.attachments)
}

// end is the end of the process, whatever the reason.
func (p *producer) end() {
	if p.gone {
		return
	}
	p.gone, p.lastEffects = true, p.w.ledger.effects
	p.w.counts.Redelivered += p.machine.Stats().Redelivered
	p.dropEverybody()
	p.w.producers = slices.DeleteFunc(p.w.producers, func(o *producer) bool { return o == p })
	if p.w.profile.Volatile {
		p.w.ledger.forgetAll()
		p.w.openQueue()
	}
}

// crash ends the process and lets another one take its place after a while.
func (p *producer) crash(f Fault) {
	if p.gone {
		return
	}
	p.w.count(f)
	p.w.note(p.name, "crashes (%s)", f)
	wasActive := p.w.active() == p
	p.end()
	if wasActive { // an older one beside it has lost the queue, although it may not know
		successor := p.w.active()
		p.w.plan(100*time.Millisecond+p.w.someTime(time.Second), func() {
			// When the storm is over, the one that is left stays the only one.
			if p.w.active() == successor && (successor == nil || !p.w.healing) {
				p.w.bootProducer()
			}
		})
	}
}

func (p *producer) pause(length time.Duration) {
	if p.gone || p.paused {
		return
	}
	p.w.count(ProducerPaused)
	p.w.note(p.name, "is paused for %v", length)
	p.paused, p.pausedAt = true, p.w.now
	p.w.plan(length, p.resume)
}

func (p *producer) resume() {
	if p.gone || !p.paused {
		return
	}
	p.paused = false
	p.w.note(p.name, "wakes up after %v", p.w.now-p.pausedAt)
	if slept := p.w.now - p.pausedAt; slept > p.config.Heartbeat && p.w.notices() {
		p.take(delivery.Paused{For: slept})
	}
	inbox := p.inbox
	p.inbox = nil
	for _, what := range inbox {
		p.receive(what)
	}
}

// takeover starts a second producer beside the first, which may sleep through it and lives on for a while.
func (w *flow) takeover() {
	old := w.active()
	if old == nil || len(w.producers) > 2 || w.profile.Volatile {
		return
	}
	w.count(Takeover)
	if w.profile.Overlap == 0 && w.chance(0.6) {
		old.pause(time.Second + w.upTo(20*time.Second))
	}
	w.bootProducer()
	w.plan(5*time.Second+w.upTo(20*time.Second), func() {
		if old != w.active() { // if it is, the successor died and the next one is on its way
			old.end()
		} else {
			old.crash(ProducerCrashed)
		}
	})
}

func (w *flow) healProducers() {
	for _, p := range slices.Clone(w.producers) {
		p.crashIn = -1
		if p != w.active() {
			p.end()
			continue
		}
		p.resume()
	}
	if w.replaceStale() {
		return
	}
	w.active().reconfigure(w.tunables.controller)
	w.active().receive(func() {
		if p := w.active(); p != nil {
			p.take(delivery.SetIntake{Open: true, Dispatch: true})
		}
	})
}

// replaceStale is what hosts do that read now and then who owns the queue: one that has the queue no more gives up, also if it has nothing
// to write. Of one that loads it can be told only later.
func (w *flow) replaceStale() bool {
	p := w.active()
	switch {
	case p == nil:
	case !p.failed && p.view.loading:
		w.plan(5*time.Second, func() { w.replaceStale() })
		return false
	case !p.failed && p.epoch == w.ledger.epoch:
		return false
	default:
		p.end()
	}
	w.bootProducer()
	return true
}

func (p *producer) reconfigure(c delivery.ControllerConfig) {
	p.receive(func() {
		p.config = c
		p.take(delivery.Reconfigure{Config: c})
	})
}

func (p *producer) String() string { return fmt.Sprintf("%s (epoch %d)", p.name, p.epoch) }
