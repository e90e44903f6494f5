package delivery

import "math/bits"

// roster is the ring of live bindings in registration order, with the free demand of each and of all.
type roster struct {
	ring   []*binding
	ready  []uint64 // bit i: ring[i] has free demand
	cursor int      // position served last, -1 before the first
	free   int
}

func (r *roster) len() int { return len(r.ring) }

// add puts a binding at the end of the ring, where newcomers and those who return belong (G-057).
func (r *roster) add(b *binding) {
	if len(r.ring) == 0 {
		r.cursor = -1
	}
	b.ring = len(r.ring)
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

func (r *roster) setFree(b *binding, free int) {
	if free == b.free || b.ring < 0 {
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

// next picks whose turn it is among those with free demand: the first after the one served last, but not the binding numbered
// avoid if there is another. nil if nobody has free demand.
func (r *roster) next(avoid uint64) *binding {
	i := r.readyAfter(r.cursor)
	if i < 0 {
		return nil
	}
	if r.ring[i].number == avoid {
		if other := r.readyAfter(i); other != i {
			return r.ring[other] // the avoided one keeps its turn
		}
	}
	r.cursor = i
	return r.ring[i]
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

func (r *roster) stats() []BindingStats {
	stats := make([]BindingStats, len(r.ring))
	for i, b := range r.ring {
		stats[i] = BindingStats{
			BindingID: b.id, Worker: b.worker, InFlight: b.bound, Started: b.bound - b.unstarted(), FreeDemand: b.free,
			Connected: b.conn != nil, Draining: b.draining,
		}
	}
	return stats
}
