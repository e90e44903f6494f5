package local

import "fmt"

// settling is the work of writing a frozen layer to the tree, beside the lane.
type settling struct {
	layer *layer
	mark  journalMark // the end of its generation
	rest  []*row      // what is not written yet
	done  chan struct{}
	err   error // valid when done is closed
}

// freeze makes the active layer the one that is written to the tree, and opens the next. It waits for the one before. The caller holds the
// lane.
func (q *Queue) freeze() error {
	if err := q.settled(); err != nil {
		return err
	}
	q.mu.Lock()
	q.frozen, q.active = q.active, newLayer(q.active.state)
	q.mu.Unlock()
	q.settle(q.journal.turn())
	return nil
}

// settle starts to write the frozen layer, whose generation ends at a mark.
func (q *Queue) settle(mark journalMark) {
	q.settling = &settling{layer: q.frozen, mark: mark, rest: q.frozen.sorted()}
	q.resume()
}

func (q *Queue) resume() {
	work := q.settling
	work.done = make(chan struct{})
	go func() {
		defer close(work.done)
		work.err = guarded(func() error { return q.writePieces(work) })
	}()
}

// settled waits until the frozen layer is in the tree, if there is one; what could not be written before is tried once more.
func (q *Queue) settled() error {
	work := q.settling
	if work == nil {
		return nil
	}
	<-work.done
	if work.err != nil {
		q.resume()
		<-work.done
	}
	if work.err != nil {
		return fmt.Errorf("writing the journal to the tree: %w", work.err)
	}
	q.settling = nil
	return nil
}

// pending tells whether something is not in the tree yet. The caller holds the lane.
func (q *Queue) pending() bool { return q.active.groups > 0 || q.settling != nil }

// drain brings the tree up to date. The caller holds the lane.
func (q *Queue) drain() error {
	if q.active.groups > 0 {
		if err := q.freeze(); err != nil {
			return err
		}
	}
	return q.settled()
}

const (
	// A piece of a layer is one transaction: it needs free pages for all that it touches before it gives others back.
	smallestPiece = 2 << 20
	largestPiece  = 32 << 20
	// firstRow is how many bytes a row of the first piece is thought to touch.
	firstRow = 4 << 10
)

// writePieces writes a layer in transactions of a size that the space allows. The last one says that the tree is at the mark. Between them
// the tree contradicts itself, but nobody meets that: the layer lies over it until the end, also after a crash.
func (q *Queue) writePieces(work *settling) error {
	limit := max(len(work.rest), 1)
	for {
		n := min(q.piece(work.layer), limit, len(work.rest))
		last := n == len(work.rest)
		bytes, err := q.transact(func(t *table) error {
			if err := t.write(work.rest[:n], work.layer.state.cursor); err != nil || !last {
				return err
			}
			return t.finish(work.layer, q.journal.journalShape, work.mark)
		})
		switch {
		case err != nil && outOfSpace(err) && n > 1:
			limit = n / 2
			continue
		case err != nil:
			return err
		}
		limit = 2 * max(n, 1)
		if n >= 64 {
			q.perRow = max(bytes/int64(n), 64)
		}
		q.mu.Lock()
		work.layer.cost -= work.layer.cost * int64(n) / int64(max(len(work.rest), 1))
		if work.rest = work.rest[n:]; last {
			q.frozen = nil
		}
		q.mu.Unlock()
		if last {
			return nil
		}
	}
}

// piece is how many rows of a layer fit into the space for one transaction.
func (q *Queue) piece(l *layer) int {
	want := min(largestPiece, max(smallestPiece, q.space.used()/4))
	room := q.space.room()
	if missing := want + reserve(l.state) - room; missing > 0 {
		if taken, err := q.space.grow(missing); err == nil { // else the reserve is for this
			room += taken
		}
	}
	return int(max(min(want, room/2)/q.perRow, 1))
}

// transact is one transaction of the tree. It returns how many bytes of pages it took.
func (q *Queue) transact(deed func(*table) error) (bytes int64, err error) {
	tx, err := q.db.Begin(true)
	if err != nil {
		return 0, fmt.Errorf("beginning a transaction: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit there is nothing left to roll back
	t, err := openTable(tx)
	if err != nil {
		return 0, err
	}
	if err := deed(t); err != nil {
		return 0, err
	}
	if q.treeGate != nil {
		if err := q.treeGate(); err != nil {
			return 0, err
		}
	}
	stats := tx.Stats()
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	if q.treeSync != nil {
		if err := q.treeSync(); err != nil {
			return 0, err
		}
	}
	return stats.PageAlloc, q.space.measure(q.db)
}
