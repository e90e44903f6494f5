package simulation

import (
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// sidecar is one process that hosts a Consumer.
type sidecar struct {
	w       *world
	pod     *pod
	name    string
	machine Consumer
	clock   localClock
	view    *consumerView
	config  delivery.ConsumerConfig

	links []*link
	conns delivery.ConnID
	runs  map[delivery.RunID]*run

	armed    time.Duration
	late     int
	paused   bool
	pausedAt time.Duration
	inbox    []func()
	gone     bool
	crashIn  int // crash before so many more actions are done, 0 and below is never
	draining bool
	drained  bool
}

// run is one invocation of the app.
type run struct {
	id       delivery.RunID
	flow     *flow
	delivery protocol.Delivery
	done     bool // it has ended, in whatever way
	canceled bool
}

func newSidecar(p *pod) *sidecar {
	w := p.w
	s := &sidecar{
		w: w, pod: p, name: w.name("sidecar"), clock: w.newClock(), armed: -1, config: w.tunables.consumer, runs: map[delivery.RunID]*run{},
	}
	s.view = newConsumerView(s)
	var names []string
	for _, f := range w.flows {
		s.links = append(s.links, &link{s: s, flow: f, grants: map[string]*grant{}, pending: map[int64]delivery.Now{}})
		names = append(names, f.title)
	}
	s.machine = w.machines.Consumer(s.config, protocol.Incarnation{PodUID: p.uid, BootNonce: s.name},
		&machineRandom{owner: s.name, rng: w.childRandom()}, names...)
	return s
}

func (s *sidecar) start() {
	s.w.note(s.name, "boots in %s", s.pod.name)
	if s.pod.ready {
		s.take(delivery.AppReady{Ready: true})
	}
	lost := s.pod.lost
	s.pod.lost = nil
	for _, l := range s.links {
		if claims := lost[l.flow]; len(claims) > 0 && s.w.chance(0.8) { // else what the process before kept was lost with it
			s.take(delivery.HoldClaims{Flow: l.flow.title, Claims: claims})
			s.w.plan(s.w.upTo(3*time.Second), func() { s.receive(func() { s.take(delivery.OrphansGone{}) }) }) // handlers end with their sidecar here
		}
		l.dial(s.w.upTo(100 * time.Millisecond))
	}
}

// awake reports whether the process takes what comes at once. Asking first spares the making of what it would do later.
func (s *sidecar) awake() bool { return !s.gone && !s.paused }

func (s *sidecar) receive(what func()) {
	switch {
	case s.gone:
	case s.paused:
		s.inbox = append(s.inbox, what)
	default:
		what()
	}
}

func (s *sidecar) take(event delivery.ConsumerEvent) {
	if s.gone || s.w.violation != nil {
		return
	}
	s.w.told(s.name, "<-", event)
	s.view.before(event)
	actions := s.machine.Step(s.clock.read(s.w.now), event)
	for i, a := range actions {
		s.w.told(s.name, "->", a)
		if s.crashIn--; s.crashIn == 0 { // between two actions, the rest is never done
			s.w.note(s.name, "does not get to the last %d actions", len(actions)-i)
			s.pod.crashSidecar(SidecarCrashedMidStep)
			return
		}
		s.view.action(a)
		s.do(a)
		if s.gone {
			return
		}
	}
	s.view.after()
	s.arm(event)
}

func (s *sidecar) arm(after delivery.ConsumerEvent) {
	deadline, ok := s.machine.NextDeadline()
	if !ok || s.gone {
		return
	}
	at := s.clock.when(deadline)
	if _, tick := after.(delivery.ConsumerTick); tick && at <= s.w.now {
		if s.late++; s.late > 3 {
			s.w.violate("I-10", "%s busy loop: after a tick its next deadline is still %v ago", s.name, s.w.now-at)
			return
		}
	} else {
		s.late = 0
	}
	at = max(at, s.w.now)
	if s.armed >= 0 && s.armed <= at {
		return
	}
	s.armed = at
	s.w.timeline.plan(at+s.w.lateness(), func() {
		switch {
		case s.armed != at:
		case s.awake():
			s.tick()
		default:
			s.receive(s.tick)
		}
	})
}

func (s *sidecar) tick() {
	s.armed = -1
	if deadline, ok := s.machine.NextDeadline(); ok && s.clock.when(deadline) > s.w.now {
		s.arm(nil)
		return
	}
	s.take(delivery.ConsumerTick{})
}

func (s *sidecar) do(action delivery.ConsumerAction) {
	switch a := action.(type) {
	case delivery.ToController:
		if st := s.streamOf(a.Conn); st != nil {
			st.toProducer(a.Message)
		}
	case delivery.Reconnect:
		if st := s.streamOf(a.Conn); st != nil {
			st.endAtProducer(s.w.upTo(50 * time.Millisecond))
			s.w.plan(0, func() { s.cut(st) })
		}
	case delivery.StartHandler:
		s.invoke(a)
	case delivery.CancelHandler:
		s.cancel(a.Run)
	case delivery.ProducersEvicted, delivery.DeliveryRefused: // for the log
	case delivery.OrphanEnded: // nothing outlives a simulated process
	case delivery.Drained:
		s.drained = true
		s.w.count(DrainFinished)
		if s.pod.leaving {
			s.w.plan(s.w.upTo(time.Second), s.pod.remove)
		}
	default:
		s.w.violate("action", "%s: unknown action %T", s.name, action)
	}
}

// --- the handler

// invoke starts the app's handler and draws how it will end.
func (s *sidecar) invoke(a delivery.StartHandler) {
	r := &run{id: a.Run, flow: s.linkTo(a.Flow).flow, delivery: a.Delivery}
	s.runs[a.Run] = r
	w, h := s.w, s.w.profile.Handler
	if w.healing {
		h = handlerFaults{mean: 50 * time.Millisecond}
	}
	sub := s.linkTo(a.Flow).flow.ledger.submission(a.Delivery.Job.MessageID)
	switch {
	case !s.pod.ready:
		w.count(HandlerUnreachable)
		s.finishIn(0, r, delivery.HandlerDone{Outcome: protocol.HandedBack, Reason: "connection refused"})
	case !w.healing && sub != nil && sub.poison:
		w.plan(w.upTo(200*time.Millisecond), func() {
			switch {
			case s.gone || r.done:
			case w.healing:
				s.finishIn(0, r, delivery.HandlerDone{Outcome: protocol.Confirmed})
			default:
				s.pod.crashSidecar(PoisonKilled)
			}
		})
	case !w.healing && s.pod.broken:
		w.count(HandlerBroken)
		s.finishIn(w.someTime(h.mean), r, delivery.HandlerDone{Outcome: protocol.Nacked, Reason: "the revision is broken"})
	case w.chance(h.unreachable):
		w.count(HandlerUnreachable)
		s.finishIn(0, r, delivery.HandlerDone{Outcome: protocol.HandedBack, Reason: "connection refused"})
	case w.chance(h.nack):
		w.count(HandlerNacked)
		s.finishIn(w.someTime(h.mean), r, delivery.HandlerDone{Outcome: protocol.Nacked, Reason: pick(w.rng, "500", "")})
	case w.chance(h.reject):
		w.count(HandlerRejected)
		s.finishIn(w.someTime(h.mean), r, delivery.HandlerDone{Outcome: protocol.Rejected, Reason: pick(w.rng, "422", "")})
	case w.chance(h.delay):
		w.count(HandlerDelayed)
		s.finishIn(w.someTime(h.mean), r, delivery.HandlerDone{
			Outcome: protocol.Delayed, Reason: "503", RetryAfter: pick(w.rng, 0, w.upTo(3*time.Second)),
		})
	case w.chance(h.overrun):
		s.finishIn(s.config.HandlerTimeout+w.upTo(20*time.Second), r, delivery.HandlerDone{Outcome: protocol.Confirmed})
	default:
		s.finishIn(w.someTime(h.mean), r, delivery.HandlerDone{Outcome: protocol.Confirmed})
	}
}

// finishIn ends a run after a while. The app's success is a fact at that moment, whatever becomes of the sidecar's knowledge.
func (s *sidecar) finishIn(after time.Duration, r *run, done delivery.HandlerDone) {
	done.Run = r.id
	s.w.plan(after, func() {
		if r.done || s.gone {
			return
		}
		r.done = true
		s.view.ended(r, done.Outcome)
		s.receive(func() {
			delete(s.runs, r.id)
			s.take(done)
		})
	})
}

// cancel is the sidecar's polite wish; half of the apps heed it.
func (s *sidecar) cancel(id delivery.RunID) {
	if r := s.runs[id]; r != nil && !r.done {
		s.w.count(HandlerOverran)
		r.canceled = true
		if s.w.chance(0.5) {
			s.finishIn(s.w.upTo(time.Second), r, delivery.HandlerDone{Outcome: pick(s.w.rng, protocol.Nacked, protocol.Confirmed)})
		}
	}
}

// abortRuns ends all handlers without an answer: their process was replaced.
func (s *sidecar) abortRuns() {
	for _, id := range sortedKeys(s.runs) {
		if r := s.runs[id]; !r.done {
			r.done = true
			s.view.ended(r, protocol.Nacked)
			delete(s.runs, id)
		}
	}
}

// healRuns ends handlers that would run for long.
func (s *sidecar) healRuns() {
	for _, id := range sortedKeys(s.runs) {
		s.finishIn(s.w.upTo(2*time.Second), s.runs[id], delivery.HandlerDone{Outcome: protocol.Confirmed})
	}
}

// --- the process

func (s *sidecar) pause(length time.Duration) {
	if s.paused {
		return
	}
	s.w.count(SidecarPaused)
	s.w.note(s.name, "is paused for %v", length)
	s.paused, s.pausedAt = true, s.w.now
	s.w.plan(length, s.resume)
}

func (s *sidecar) resume() {
	if s.gone || !s.paused {
		return
	}
	s.paused = false
	s.w.note(s.name, "wakes up after %v", s.w.now-s.pausedAt)
	if slept := s.w.now - s.pausedAt; slept > 2*time.Second && s.w.notices() {
		s.take(delivery.ConsumerPaused{For: slept})
	}
	inbox := s.inbox
	s.inbox = nil
	for _, what := range inbox {
		s.receive(what)
	}
}

func (s *sidecar) die() {
	s.gone = true
	s.view.died()
	for _, l := range s.links {
		l.abandon()
	}
}

func (s *sidecar) unfinished() string {
	status := s.machine.Status(s.clock.read(s.w.now))
	switch {
	case !status.Registered:
		return "not registered: " + status.LastRefusal
	case status.Running+status.Buffered+status.Unsettled > 0:
		return describe(status)
	}
	return ""
}
