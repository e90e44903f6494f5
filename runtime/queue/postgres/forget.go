package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// forgetting is the removal of tombstones whose window started at or before a moment.
type forgetting struct {
	until int64
	limit int

	seqs  []int64
	whole []settlement // settlements that are used up
	part  *settlement  // the one of which a part is left
}

// settlement is what one transaction settled, as the table has it.
type settlement struct {
	since, turn int64
	seqs        ranges
}

// findForgettable chooses the oldest tombstones: those that bear the start of their window, and those of whole transactions.
func (t *transaction) findForgettable(ctx context.Context) error {
	f := t.forget
	var found []settlement
	b := &pgx.Batch{}
	b.Queue(t.q.sql.expired, t.q.flow, f.until, f.limit).Query(func(rows pgx.Rows) error {
		single, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s settlement, err error) {
			var seq int64
			err = row.Scan(&s.since, &seq)
			s.seqs = ranges{{seq, seq}}
			return s, err
		})
		found = append(found, single...)
		return err
	})
	b.Queue(t.q.sql.settled, t.q.flow, f.until, f.limit).Query(func(rows pgx.Rows) error {
		several, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s settlement, err error) {
			err = row.Scan(&s.since, &s.turn, &s.seqs)
			return s, err
		})
		found = append(found, several...)
		return err
	})
	if err := t.conn.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("reading: %w", err)
	}
	slices.SortStableFunc(found, func(a, b settlement) int { return cmp.Compare(a.since, b.since) })
	for _, s := range found {
		f.take(s)
	}
	return nil
}

// take chooses the tombstones of a settlement, as many as the limit allows.
func (f *forgetting) take(s settlement) {
	room := int64(f.limit - len(f.seqs))
	if room <= 0 {
		return
	}
	taken := s.seqs.first(room)
	for _, span := range taken {
		for seq := span.low; seq <= span.high; seq++ {
			f.seqs = append(f.seqs, seq)
		}
	}
	switch {
	case s.turn == 0: // the tombstone bears it
	case taken.count() == s.seqs.count():
		f.whole = append(f.whole, s)
	default:
		f.part = &settlement{since: s.since, turn: s.turn, seqs: taken}
	}
}

// forget queues what was chosen.
func (w *writer) forget(t *transaction) {
	f := t.forget
	if f == nil || len(f.seqs) == 0 {
		return
	}
	w.b.Queue(w.sql.deleteIDs, w.flow, of(f.seqs)).Exec(func(tag pgconn.CommandTag) error {
		t.forgotten = int(tag.RowsAffected())
		return touched(tag, len(f.seqs))
	})
	for _, s := range f.whole {
		w.expect(1, w.sql.forget, w.flow, s.since, s.turn)
	}
	if s := f.part; s != nil {
		w.expect(1, w.sql.forgetSome, w.flow, s.since, s.turn, s.seqs, s.seqs.count())
	}
}
