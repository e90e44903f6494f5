package simulation

import (
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
)

// chaos does one misfortune and plans the next.
func (w *world) chaos() {
	if w.healing {
		return
	}
	total := 0
	for _, c := range w.profile.Chaos {
		total += c.weight
	}
	if total > 0 {
		n := w.rng.IntN(total)
		for _, c := range w.profile.Chaos {
			if n -= c.weight; n < 0 {
				w.strike(c.fault)
				break
			}
		}
	}
	w.plan(w.someTime(w.profile.FaultEvery), w.chaos)
}

func (w *world) anyPod() *pod {
	if len(w.pods) == 0 {
		return nil
	}
	return w.pods[w.rng.IntN(len(w.pods))]
}

// strike does one fault, if there is something to do it to.
func (w *world) strike(f Fault) {
	switch f {
	case StreamCut, StreamHalfOpen, PodPartitioned, SidecarCrashed, SidecarCrashedMidStep, PodReplaced, PodGoneUnnoticed, SidecarPaused, AppRestarted, AppUnready,
		Cordoned, Uncordoned, DrainStarted, ScaledDown, GarbledToWorker:
		if p := w.anyPod(); p != nil {
			w.strikePod(f, p)
		}
	case ProducerCrashed:
		if p := w.anyFlow().active(); p != nil {
			p.crash(ProducerCrashed)
		}
	case ProducerCrashedMidStep:
		if p := w.anyFlow().active(); p != nil {
			p.crashIn = w.rng.IntN(12)
		}
	case ProducerPaused:
		if p := w.anyFlow().active(); p != nil {
			p.pause(w.someTime(5 * time.Second))
		}
	case Takeover:
		w.anyFlow().takeover()
	case SubmitterCrashed:
		w.anyFlow().anySubmitter().crash()
	case SubmitterMisused:
		w.anyFlow().anySubmitter().misuse()
	case Resubmitted:
		w.anyFlow().anySubmitter().resubmit()
	case QueueOutage:
		w.anyFlow().breakQueue(f, w.someTime(4*time.Second))
	case LongOutage:
		w.anyFlow().breakQueue(f, 2*window+w.someTime(30*time.Second))
	case ConfirmStuck:
		w.anyFlow().stickConfirm()
	case ScaledUp:
		if len(w.pods) < 8 {
			w.count(ScaledUp)
			w.addPod()
		}
	case Reconfigured:
		w.reconfigure()
	case IntakeClosed:
		w.anyFlow().closeIntake()
	case Redriven, DeadLetterDropped:
		w.anyFlow().decide(f)
	case Compacted:
		w.anyFlow().compact()
	case IntruderSpoke:
		w.anyIntruder().speak()
	default:
		w.violate("chaos", "nobody knows how to make happen: %v", f)
	}
}

func (w *world) strikePod(f Fault, p *pod) {
	s := p.sidecar
	switch f {
	case StreamCut:
		if st := s.anyStream(); st != nil {
			w.count(f)
			st.end()
		} else if a := w.anyFlow().anySubmitter().link; a != nil {
			a.cut()
		}
	case StreamHalfOpen:
		if st := s.anyStream(); st != nil {
			w.count(f)
			w.note(p.name, "its stream goes half open")
			which := w.rng.IntN(3)
			st.up.dark, st.down.dark = which != 0, which != 1
		}
	case PodPartitioned:
		p.darken(w.someTime(6 * time.Second))
	case SidecarCrashed:
		p.crashSidecar(f)
	case SidecarCrashedMidStep:
		if s != nil {
			s.crashIn = 1 + w.rng.IntN(12)
		}
	case PodReplaced:
		w.count(f)
		p.remove()
		w.plan(w.someTime(2*time.Second), func() { w.addPod() })
	case PodGoneUnnoticed:
		w.count(f)
		p.vanish()
		w.plan(w.someTime(2*time.Second), func() { w.addPod() })
	case SidecarPaused:
		if s != nil {
			s.pause(w.someTime(5 * time.Second))
		}
	case AppRestarted:
		p.restartApp()
	case AppUnready:
		w.count(f)
		p.setReady(false)
		w.plan(w.someTime(3*time.Second), func() { p.setReady(true) })
	case Cordoned:
		if s != nil {
			w.count(f)
			s.receive(func() { s.take(delivery.Cordon{}) })
		}
	case Uncordoned:
		p.uncordon()
	case DrainStarted:
		p.drain(false, 0)
	case ScaledDown:
		w.count(f)
		p.drain(true, 500*time.Millisecond+w.someTime(15*time.Second))
	case GarbledToWorker:
		if s != nil {
			w.garble(s)
		}
	default:
		w.violate("chaos", "nobody knows how to make happen to a pod: %v", f)
	}
}

func (w *flow) breakQueue(f Fault, length time.Duration) {
	w.count(f)
	w.outageEnd = max(w.outageEnd, w.now+length)
	w.note("queue", "is down until %v", w.outageEnd)
}

func (w *flow) anySubmitter() *submitter { return w.submitters[w.rng.IntN(len(w.submitters))] }

// stickConfirm makes the queue refuse the confirm of one open job for a while.
func (w *flow) stickConfirm() {
	if len(w.ledger.open) == 0 {
		return
	}
	id := w.ledger.open[w.rng.IntN(len(w.ledger.open))].ref.MessageID
	w.count(ConfirmStuck)
	w.note("queue", "refuses the confirm of %s", id)
	w.stuck[id] = true
	if !w.profile.MustProgress {
		w.plan(w.someTime(20*time.Second), func() { delete(w.stuck, id) })
	}
}

// reconfigure changes tunables of the active producer or of one worker; the storm's end restores those of the producer.
func (w *world) reconfigure() {
	w.count(Reconfigured)
	t := w.profile.draw(w.rng)
	if p := w.anyFlow().active(); p != nil && w.chance(0.6) {
		p.reconfigure(t.controller)
		p.w.ledger.reconfigured(t.controller)
		return
	}
	if p := w.anyPod(); p != nil && p.sidecar != nil {
		s := p.sidecar
		s.receive(func() {
			s.config = t.consumer
			s.view.reconfigured(t.consumer)
			s.take(delivery.ReconfigureConsumer{Config: t.consumer})
		})
	}
}

func (w *flow) closeIntake() {
	p := w.active()
	if p == nil {
		return
	}
	w.count(IntakeClosed)
	set := func(open, dispatch bool) func() {
		return func() { p.receive(func() { p.take(delivery.SetIntake{Open: open, Dispatch: dispatch}) }) }
	}
	set(false, w.chance(0.5))()
	w.plan(w.someTime(4*time.Second), set(true, true))
}

// garble lets a worker hear things that no correct controller says, or says no longer.
func (w *world) garble(s *sidecar) {
	w.count(GarbledToWorker)
	s.receive(func() {
		link := s.links[w.rng.IntN(len(s.links))]
		m := w.garbledToWorker(link)
		conn := link.conn
		if w.chance(0.2) {
			conn = delivery.ConnID(w.rng.IntN(int(s.conns) + 2))
		}
		s.take(delivery.FromController{Conn: conn, Message: m})
	})
}
