package delivery

import (
	"math/bits"
	"slices"
)

// Dispatch says who of the workers with free demand gets the next job.
type Dispatch string

const (
	// RoundRobin takes turns in the order of registration (G-053). The zero value means it too.
	RoundRobin Dispatch = "RoundRobin"
	// LeastOutstanding takes the worker with the fewest unsettled jobs, and among equals the one that was served longest ago.
	LeastOutstanding Dispatch = "LeastOutstanding"
)

// roster is the ring of live bindings in registration order, with the free demand of each and of all.
type roster struct {
	ring   []*binding
	ready  []uint64 // bit i: ring[i] has free demand
	cursor int      // position served last, -1 before the first
	free   int

	byLoad bool           // LeastOutstanding
	load   heap[*binding] // those with free demand, while byLoad
	turns  uint64         // services and registrations so far
}

func newRoster() roster {
	return roster{load: heap[*binding]{
		less: func(a, b *binding) bool {
			return a.bound < b.bound || a.bound == b.bound && a.turn < b.turn
		},
		moved: func(b *binding, i int) { b.load = i },
	}}
}

// setDispatch changes who goes first. Nobody loses a turn that is due (B-264).
func (r *roster) setDispatch(d Dispatch) {
	if r.byLoad == (d == LeastOutstanding) {
		return
	}
	r.byLoad = !r.byLoad
	if !r.byLoad {
		for r.load.len() > 0 {
			r.load.pop()
		}
		return
	}
	for i := range r.ring { // in the order of turns, beginning after the one served last
		b := r.ring[(r.cursor+1+i)%len(r.ring)]
		r.turns++
		b.turn = r.turns
		r.weigh(b)
	}
}

// weigh brings the place of a binding in the order of loads up to date.
func (r *roster) weigh(b *binding) {
	switch waits := r.byLoad && b.free > 0; {
	case waits && b.load < 0:
		r.load.push(b)
	case waits:
		r.load.fix(b.load)
	case b.load >= 0:
		r.load.remove(b.load)
	}
}

func (r *roster) len() int { return len(r.ring) }

// add puts a binding at the end of the ring, where newcomers and those who return belong (G-057).
func (r *roster) add(b *binding) {
	if len(r.ring) == 0 {
		r.cursor = -1
	}
	r.turns++
	b.ring, b.load, b.turn = len(r.ring), -1, r.turns
	r.ring = append(r.ring, b)
	if len(r.ready)*64 < len(r.ring) {
		r.ready = append(r.ready, 0)
	}
}

// remove takes a binding out without making another one lose its turn (G-X14).
func (r *roster) remove(b *binding) {
	r.setFree(b, 0)
	at := b.ring
	copy(r.ring[at:], r.ring[at+1:])
	r.ring[len(r.ring)-1] = nil
	r.ring = r.ring[:len(r.ring)-1]
	if at <= r.cursor {
		r.cursor--
	}
	clear(r.ready)
	for i, x := range r.ring {
		x.ring = i
		if x.free > 0 {
			r.ready[i/64] |= 1 << (i % 64)
		}
	}
	b.ring = -1
}

// setFree notes the free demand of a binding. It must be called after every change of what the binding holds.
func (r *roster) setFree(b *binding, free int) {
	if b.ring < 0 {
		return
	}
	defer r.weigh(b)
	if free == b.free {
		return
	}
	r.free += free - b.free
	b.free = free
	if free > 0 {
		r.ready[b.ring/64] |= 1 << (b.ring % 64)
	} else {
		r.ready[b.ring/64] &^= 1 << (b.ring % 64)
	}
}

// next picks whose turn it is among those with free demand, but not a binding of the pod numbered avoid if there is another. nil if
// nobody has free demand.
func (r *roster) next(avoid uint64) *binding {
	if r.byLoad {
		return r.lightest(avoid)
	}
	i := r.readyAfter(r.cursor)
	if i < 0 {
		return nil
	}
	if r.ring[i].pod.number == avoid {
		if other := r.readyAfter(i); other != i {
			return r.ring[other] // the avoided one keeps its turn
		}
	}
	r.cursor = i
	return r.ring[i]
}

// lightest picks the binding with the fewest unsettled jobs.
func (r *roster) lightest(avoid uint64) *binding {
	if r.load.len() == 0 {
		return nil
	}
	b := r.load.peek()
	if other := r.load.second(); b.pod.number == avoid && other >= 0 {
		b = r.load.items[other]
	}
	r.turns++
	b.turn = r.turns
	r.load.fix(b.load)
	r.cursor = b.ring
	return b
}

// readyAfter is the first ready position after at, going round; -1 if there is none.
func (r *roster) readyAfter(at int) int {
	if len(r.ring) == 0 {
		return -1
	}
	start := at + 1
	word := start / 64
	if word < len(r.ready) {
		if w := r.ready[word] &^ (1<<(start%64) - 1); w != 0 {
			return word*64 + bits.TrailingZeros64(w)
		}
	}
	for range r.ready {
		word++
		if word >= len(r.ready) {
			word = 0
		}
		if w := r.ready[word]; w != 0 {
			return word*64 + bits.TrailingZeros64(w)
		}
	}
	return -1
}

func (r *roster) stats(into []BindingStats) []BindingStats {
	into = slices.Grow(into, len(r.ring))
	for _, b := range r.ring {
		into = append(into, BindingStats{
			BindingID: b.id, Worker: b.worker, InFlight: b.bound, Started: b.bound - b.unstarted(), FreeDemand: b.free,
			Connected: b.conn != nil, Draining: b.draining,
		})
	}
	return into
}
