package simulation

import "time"

// flow is one flow of the world: its queue, its producers one after the other, its submitters, and the book of its truth. The
// workers are the world's: they pull from all its flows. Message ids are the same in every flow, so that a worker meets each of
// them more than once.
type flow struct {
	*world
	title string

	store      durable
	stuck      map[string]bool // ids whose confirm the queue refuses for now
	outageEnd  time.Duration
	lastCommit time.Duration // when the last operation takes effect, if it does
	ledger     *ledger
	producers  []*producer // the living ones, oldest first; the last is the one that everybody should find
	submitters []*submitter
}

func (w *world) addFlow() {
	f := &flow{world: w, title: w.name("flow"), stuck: map[string]bool{}}
	f.ledger = newLedger(f)
	f.openQueue()
	w.flows = append(w.flows, f)
}

func (w *world) anyFlow() *flow { return w.flows[w.rng.IntN(len(w.flows))] }

// begin lets the flow live.
func (w *flow) begin() {
	w.bootProducer()
	w.addSubmitters()
	if w.profile.Compact > 0 {
		w.plan(w.profile.Compact, w.compactions)
	}
}

// heal ends the misfortunes of the queue and of whoever is not a worker.
func (w *flow) heal() {
	w.outageEnd = w.now
	if w.profile.MustProgress {
		w.checkProgress()
	}
	clear(w.stuck)
	w.healProducers()
	w.healSubmitters()
}
