package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/workpulling/workpulling/runtime/queue/internal/lane"
)

const (
	// mostRemembered bounds the entries that are remembered, to some 20 MiB.
	mostRemembered = 1 << 16
	// freshness is how long the server's time is told from a measurement of our own.
	freshness = time.Minute
	// wariness is how many transactions look for the ids that they store, after one found an id that it took for new.
	wariness = 32
)

// memory is what the last transaction of this process left. The next one may take it for the truth without reading it again: the turn of
// the flow's row, which each transaction of whomsoever raises, proves it or ends that transaction. The holder of the lane uses it.
type memory struct {
	flow    flowRow
	gone    ranges           // sequences that are accepted or settled, also those that the flow's row has no room for
	entries map[string]*held // some of the jobs, and of the tombstones that wait for their accept
	said    time.Time        // the server's time
	heard   time.Time        // when it said so, by our clock
}

// now is the server's time, and whether it can be told.
func (m *memory) now(clock func() time.Time) (time.Time, bool) {
	if clock != nil {
		return clock(), true
	}
	passed := time.Since(m.heard) //nolint:forbidigo // a measurement, by the clock that nobody sets
	return m.said.Add(passed), passed < freshness
}

// matches tells whether what is remembered is what the flow's row stands for.
func (m *memory) matches(flow flowRow) bool {
	return m != nil && m.flow.turn == flow.turn && m.flow.epoch == flow.epoch && m.flow.writer == flow.writer
}

// keep remembers an entry as it is now, if anybody may name it again.
func (m *memory) keep(h *held) {
	switch {
	case h.after.Aging():
		delete(m.entries, h.after.MessageID)
		return
	case len(m.entries) >= mostRemembered && m.entries[h.after.MessageID] == nil:
		clear(m.entries) // what is needed comes back
	}
	h.body = body{}
	m.entries[h.after.MessageID] = h
}

// learn takes over what a committed transaction leaves.
func (q *Queue) learn(t *transaction) {
	m := q.memory
	if !m.matches(t.met) {
		m = &memory{entries: map[string]*held{}}
		q.memory = m
	}
	m.flow, m.gone, m.said, m.heard = t.flow, t.gone, t.said, t.heard
	for _, h := range t.view.order {
		m.keep(h)
	}
}

// remembering runs a group on what the last transaction left, in one round trip. It says no, and has changed nothing, where that is not enough,
// turns out to be no longer true, or leads to an error: what is wrong is then for a look at the tables to say.
func (q *Queue) remembering(ctx context.Context, conn *pgxpool.Conn, group []*operation) (errs []error, err error, ok bool) { //nolint:revive // the error is not the point
	m := q.memory
	if m == nil || slices.ContainsFunc(group, func(op *operation) bool { return !op.Deed.foreseen || q.wary > 0 && len(op.Deed.ids) > 0 }) {
		return nil, nil, false
	}
	now, ok := m.now(q.clock)
	if !ok {
		return nil, nil, false
	}
	t := &transaction{q: q, conn: conn, now: now, flow: m.flow, met: m.flow, view: rememberedView(m.entries, sizeOfGroup(group))}
	failed := false
	errs = lane.Each(group, func(op *operation) error {
		err := q.owns(op.Epoch, t.flow)
		if err == nil {
			err = op.Deed.do(t, now)
		}
		failed = failed || err != nil
		return err
	})
	if failed {
		return nil, nil, false
	}
	if !slices.Contains(errs, nil) {
		return errs, nil, true
	}
	if err = t.commit(ctx, true); err == nil {
		q.remembered++
		return errs, nil, true
	}
	switch codeOf(err) {
	case moved:
	case duplicate, diskFull: // an id that was taken for new may be a known one, which needs no room
		q.wary = wariness
	default:
		return nil, err, true
	}
	if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
		return nil, err, true
	}
	return nil, nil, false
}

func sizeOfGroup(group []*operation) (n int) {
	for _, op := range group {
		n += len(op.Deed.ids) + len(op.Deed.refs)
	}
	return n
}
