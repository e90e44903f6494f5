package simulation

import "time"

// moment is something that happens at a virtual time; moments of the same time happen in the order they were planned.
type moment struct {
	at    time.Duration
	order uint64
	run   func()
}

// timeline is a binary heap of moments.
type timeline struct {
	heap  []moment
	order uint64
}

func (t *timeline) before(i, j int) bool {
	a, b := &t.heap[i], &t.heap[j]
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (t *timeline) plan(at time.Duration, run func()) {
	t.order++
	t.heap = append(t.heap, moment{at, t.order, run})
	for i := len(t.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !t.before(i, parent) {
			break
		}
		t.heap[i], t.heap[parent] = t.heap[parent], t.heap[i]
		i = parent
	}
}

func (t *timeline) next() (moment, bool) {
	if len(t.heap) == 0 {
		return moment{}, false
	}
	first, last := t.heap[0], len(t.heap)-1
	t.heap[0] = t.heap[last]
	t.heap[last] = moment{}
	t.heap = t.heap[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && t.before(child+1, child) {
			child++
		}
		if !t.before(child, i) {
			break
		}
		t.heap[i], t.heap[child] = t.heap[child], t.heap[i]
		i = child
	}
	return first, true
}
