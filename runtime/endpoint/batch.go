package endpoint

import "sync"

// batch gathers the answers to submissions whose caller waits for all of them.
type batch struct {
	places   []place
	complete chan struct{} // closed with the last answer

	mu        sync.Mutex // guards the rest
	answers   []Answer   // the caller's, once complete is closed or the batch is abandoned
	open      int
	abandoned bool
}

// place is the Reply to one submission of a batch.
type place struct {
	batch *batch
	at    int
}

func newBatch(size int) *batch {
	b := &batch{places: make([]place, size), answers: make([]Answer, size), complete: make(chan struct{})}
	for i := range b.places {
		b.places[i] = place{batch: b, at: i}
	}
	return b
}

// Answered implements Reply. What is answered to nobody counts as delivered.
func (p *place) Answered(answer Answer) (acknowledge bool) {
	b := p.batch
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.abandoned {
		return true
	}
	b.answers[p.at] = answer
	if b.open--; b.open == 0 {
		close(b.complete)
	}
	return false
}

// abandon answers what is open with err, and takes no answer any more.
func (b *batch) abandon(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.abandoned = true
	for i := range b.answers {
		if b.answers[i] == (Answer{}) {
			b.answers[i].Err = err
		}
	}
}
