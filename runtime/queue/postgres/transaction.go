package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/lane"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// mark is what the last Load of this process left in the flow's row.
type mark struct {
	epoch  queue.Epoch
	writer string
}

// flowRow is the row that every transaction locks.
type flowRow struct {
	epoch        queue.Epoch
	turn         int64 // of the last transaction
	cursor       int64
	stored, dead int64
	audited      int64
	accepted     ranges // jobs that are accepted, whatever their rows say, and sequences that are settled
	writer       string
	secret       []byte
}

// mostAccepted bounds the spans of flowRow.accepted, so that the row stays small. An accept that finds no room goes to the row of its job.
const mostAccepted = 64

// transaction is one visit to the database with the flow's row locked.
type transaction struct {
	q    *Queue
	conn *pgxpool.Conn
	now  time.Time // the server's, with the lock held
	met  flowRow   // as it was
	flow flowRow   // as it will be
	gone ranges    // as memory has it
	view *view

	workers   []protocol.Incarnation // nil if they stay
	lines     []queue.AuditLine
	forget    *forgetting
	forgotten int

	said, heard time.Time // the server's time, and when we heard of it by our clock
}

// transact runs a group: in one round trip on what is remembered, or else in one to lock and read and one to write and commit. The first
// result holds an error for each operation; the second voids them all.
func (q *Queue) transact(ctx context.Context, group []*operation) ([]error, error) {
	conn, err := q.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	defer conn.Release() // a connection with an open transaction is closed by this, which ends the transaction
	if errs, err, ok := q.remembering(ctx, conn, group); ok {
		return errs, err
	}
	q.wary = max(q.wary-1, 0)
	t := &transaction{q: q, conn: conn, view: newView()}
	if err := t.begin(ctx, group); err != nil {
		return nil, err
	}
	errs := lane.Each(group, func(op *operation) error {
		if err := q.owns(op.Epoch, t.flow); err != nil {
			return err
		}
		return op.Deed.do(t, t.now)
	})
	if !slices.Contains(errs, nil) {
		_, err := conn.Exec(ctx, "ROLLBACK")
		return errs, err
	}
	if t.forget != nil {
		if err := t.findForgettable(ctx); err != nil {
			return nil, err
		}
	}
	// Also where nothing changed. What an answer rests on may be there and not replicated, because its commit was given up while it
	// waited for a standby; this one waits behind it.
	return errs, t.commit(ctx, false)
}

// owns checks an epoch. One that this process loaded itself must also carry its own mark: a database that came back from a
// backup counts from an older number, and may have given ours to somebody else.
func (q *Queue) owns(epoch queue.Epoch, flow flowRow) error {
	q.mu.Lock()
	own := q.mark
	q.mu.Unlock()
	if epoch == 0 || epoch != flow.epoch {
		return fmt.Errorf("%w: epoch %d, the newest is %d", queue.ErrFenced, epoch, flow.epoch)
	}
	if epoch == own.epoch && own.writer != flow.writer {
		return fmt.Errorf("%w: epoch %d was issued anew; the database was restored from a backup", queue.ErrFenced, epoch)
	}
	return nil
}

// begin opens the transaction, locks the flow's row and fetches what the group's operations name.
func (t *transaction) begin(ctx context.Context, group []*operation) error {
	var ids [][]byte
	var seqs []int64
	var refs []queue.JobRef
	for _, op := range group {
		for _, id := range op.Deed.ids {
			if !t.view.asked[id] {
				t.view.asked[id] = true
				ids = append(ids, []byte(id))
			}
		}
		for _, ref := range op.Deed.refs {
			if !t.view.seqs[ref.StoreSeq] {
				t.view.seqs[ref.StoreSeq] = true
				seqs = append(seqs, ref.StoreSeq)
			}
		}
		refs = append(refs, op.Deed.refs...)
	}
	b := &pgx.Batch{}
	b.Queue(t.q.sql.begin)
	t.lock(b)
	if len(ids) > 0 {
		t.fetch(b, t.q.sql.byID, ids)
	}
	if len(seqs) > 0 {
		t.fetch(b, t.q.sql.bySeq, seqs)
	}
	if err := t.conn.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("reading: %w", err)
	}
	// A job that the group itself stores has no sequence yet that anybody could name, except in the same batch.
	missing := t.view.missing(refs)
	if len(missing) == 0 {
		return nil
	}
	b = &pgx.Batch{}
	t.fetch(b, t.q.sql.byID, bytesOf(missing))
	if err := t.conn.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("reading: %w", err)
	}
	return nil
}

func bytesOf(texts []string) [][]byte {
	b := make([][]byte, len(texts))
	for i, s := range texts {
		b[i] = []byte(s)
	}
	return b
}

// lock queues the statement that serialises all writers and loaders of a flow, and what each of them needs.
func (t *transaction) lock(b *pgx.Batch) {
	b.Queue(t.q.sql.lock, t.q.flow).Query(func(rows pgx.Rows) error {
		flow, err := pgx.CollectExactlyOneRow(rows, scanFlow)
		if err == pgx.ErrNoRows { //nolint:errorlint // pgx returns it bare
			return fmt.Errorf("%w: the flow's row is gone", queue.ErrConflict)
		}
		t.flow, t.met = flow, flow
		return err
	})
	b.Queue(t.q.sql.promise).QueryRow(func(row pgx.Row) error {
		var now int64
		err := row.Scan(&now, nil)
		t.now = fromNanos(now)
		if t.q.clock != nil {
			t.now = t.q.clock()
		}
		return err
	})
}

func scanFlow(row pgx.CollectableRow) (flowRow, error) {
	var (
		f       flowRow
		epoch   int64
		writer  []byte
		version int
	)
	if err := row.Scan(&epoch, &f.turn, &f.cursor, &f.stored, &f.dead, &f.audited, &f.accepted, &writer, &f.secret, &version); err != nil {
		return flowRow{}, err
	}
	f.epoch, f.writer = queue.Epoch(epoch), string(writer)
	if epoch < 0 || f.turn < 0 || f.cursor < 0 || f.stored < 0 || f.dead < 0 || f.stored+f.dead > f.cursor || len(f.secret) != len(queue.Secret{}) {
		return flowRow{}, fmt.Errorf("%w: the flow's row is damaged", queue.ErrConflict)
	}
	return f, checkFormat(version)
}

// fetch queues a statement that reads entries by a list of keys.
func (t *transaction) fetch(b *pgx.Batch, sql string, keys any) {
	b.Queue(sql, t.q.flow, keys).Query(func(rows pgx.Rows) error {
		entries, err := pgx.CollectRows(rows, scanEntry)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.StoreSeq > t.flow.cursor {
				return aboveCursor(e, t.flow.cursor)
			}
			t.view.read(t.flow.overlay(e))
		}
		return nil
	})
}

// overlay says of a job's row what the flow's row knows better.
func (f flowRow) overlay(e ledger.Entry) ledger.Entry {
	e.Accepted = e.Accepted || !e.Settled() && f.accepted.has(e.StoreSeq)
	return e
}

func aboveCursor(e ledger.Entry, cursor int64) error {
	return fmt.Errorf("%w: sequence %d is above the cursor %d", queue.ErrConflict, e.StoreSeq, cursor)
}

// put lays a planned change over the view and counts it.
func (t *transaction) put(change ledger.Change, b body) {
	stored, dead := change.Growth()
	t.flow.stored += stored
	t.flow.dead += dead
	t.view.put(change, b)
}

// note adds an audit line.
func (t *transaction) note(line queue.AuditLine) {
	t.flow.audited++
	line.Number = uint64(t.flow.audited)
	t.lines = append(t.lines, line)
}

// accept puts what was accepted or settled into the flow's row. What finds no room there is left to the rows of the jobs.
func (t *transaction) accept() {
	before := t.met.accepted
	if t.q.memory.matches(t.met) {
		before = t.q.memory.gone
	}
	t.gone = slices.Clone(before)
	for _, h := range t.view.order {
		if h.after.Settled() || h.dirty && h.after.Accepted {
			t.gone.add(h.after.StoreSeq)
		}
	}
	if t.flow.accepted = t.gone; len(t.gone) <= mostAccepted {
		return
	}
	t.flow.accepted = slices.Clone(t.met.accepted)
	for _, h := range t.view.order {
		if !h.dirty || !h.after.Accepted || h.after.Settled() {
			continue
		}
		if with := slices.Clone(t.flow.accepted); !with.has(h.after.StoreSeq) {
			with.add(h.after.StoreSeq)
			if len(with) > mostAccepted {
				h.altered = true
				continue
			}
			t.flow.accepted = with
		}
	}
}

// commit writes all that changed and commits, in one round trip, which may also begin.
func (t *transaction) commit(ctx context.Context, begin bool) error {
	b := &pgx.Batch{}
	if begin {
		b.Queue(t.q.sql.begin)
	}
	t.accept()
	w := writer{b: b, sql: &t.q.sql, flow: t.q.flow}
	w.turn(t)
	w.entries(t)
	w.workers(t.workers)
	w.audit(t.lines, t.flow.audited)
	w.forget(t)
	w.commit(t)
	if err := t.conn.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	t.flow.turn++
	t.q.learn(t)
	return nil
}
