package simulation

import "github.com/workpulling/workpulling/runtime/protocol"

// grant is what a worker heard of its part in a binding, and so what it may ask for there (I-4).
type grant struct {
	window  int            // the largest that an acknowledgement of the binding named
	adopted int64          // the highest sequence of a job that came with one
	taken   map[int64]bool // sequences that the controller took over, those that the worker confirmed as a whole left out
	wholly  int64          // up to here all are
}

// acknowledged notes an answer to the latest registration.
func (l *link) acknowledged(m protocol.RegistrationAck) {
	g := l.grants[m.BindingID]
	if g == nil || m.BindingID != l.binding { // a worker begins a binding anew that it has left
		g = &grant{taken: map[int64]bool{}}
		l.grants[m.BindingID] = g
	}
	g.window = max(g.window, m.Window)
	for _, a := range m.Adopted {
		g.adopted = max(g.adopted, a.WorkerSeq)
	}
}

// takenOver notes what the worker need not count any more.
func (g *grant) takenOver(m protocol.SettledAck) {
	g.wholly = max(g.wholly, m.UpTo)
	for _, seq := range m.Above {
		g.taken[seq] = true
	}
}

// most is the highest demand that a worker may have which says that everything up to confirmed is taken over: the window counts what is
// not, and jobs that a claim brought come beyond it.
func (g *grant) most(confirmed int64) int64 {
	above := max(0, g.wholly-confirmed)
	for seq := range g.taken {
		switch {
		case seq <= confirmed:
			delete(g.taken, seq)
		case seq > g.wholly:
			above++
		}
	}
	return max(confirmed+above+int64(g.window), g.adopted)
}

// asked checks a demand: it is within what was granted, or no more than was asked for before under a larger window.
func (v *consumerView) asked(l *link, m protocol.Request) {
	g := l.grants[m.BindingID]
	if g == nil {
		v.w.violate("I-4", "%s asks for jobs in binding %q, which nobody gave it", v.s.name, m.BindingID)
		return
	}
	if most := g.most(m.ConfirmedSeq); m.RequestUpTo > max(most, l.demand) {
		v.w.violate("I-4", "%s demands up to %d of %s with %d confirmed, the window of %d allows %d",
			v.s.name, m.RequestUpTo, m.BindingID, m.ConfirmedSeq, g.window, most)
	}
	l.demand = max(l.demand, m.RequestUpTo)
}
