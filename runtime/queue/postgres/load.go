package postgres

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// patient replaces the session's bound on an idle transaction while a visitor is at work: the server has sent its last row long
// before the visitor has seen it.
const patient = `SET LOCAL idle_in_transaction_session_timeout = '60s'`

// Load implements queue.WorkQueue. The flow's row is locked from before the first row to the commit of the new epoch, so no
// writer gets between them, here or elsewhere; rows stream past and are checked on the way.
func (q *Queue) Load(ctx context.Context, owner string, visit func(queue.Row) error) (queue.State, queue.Epoch, error) {
	if err := q.lane.Hold(ctx); err != nil {
		return queue.State{}, 0, err
	}
	defer q.lane.Release()
	state, m, err := q.load(ctx, owner, visit)
	if err != nil {
		return queue.State{}, 0, q.explain(ctx, err)
	}
	q.mu.Lock()
	q.mark = m
	q.mu.Unlock()
	return state, m.epoch, nil
}

func (q *Queue) load(ctx context.Context, owner string, visit func(queue.Row) error) (queue.State, mark, error) {
	if q.lane.Closed() {
		return queue.State{}, mark{}, errClosed
	}
	conn, err := q.pool.Acquire(ctx)
	if err != nil {
		return queue.State{}, mark{}, fmt.Errorf("connecting: %w", err)
	}
	defer conn.Release() // without a commit this closes the connection, which ends the transaction
	t := &transaction{q: q, conn: conn, view: newView()}
	b := &pgx.Batch{}
	b.Queue(q.sql.begin)
	b.Queue(patient)
	t.lock(b)
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return queue.State{}, mark{}, fmt.Errorf("locking: %w", err)
	}
	if err := t.visitAll(ctx, visit); err != nil {
		_, _ = conn.Exec(ctx, "ROLLBACK") // if this fails the connection is closed
		return queue.State{}, mark{}, err
	}
	return t.own(ctx, owner)
}

// visitAll shows all stored rows to the visitor, and counts them and the dead letters against the flow's row.
func (t *transaction) visitAll(ctx context.Context, visit func(queue.Row) error) error {
	rows, err := t.conn.Query(ctx, t.q.sql.rows, t.q.flow)
	if err != nil {
		return fmt.Errorf("reading: %w", err)
	}
	defer rows.Close()
	counts := map[ledger.Status]int64{}
	for rows.Next() {
		e, err := scanEntry(rows)
		switch {
		case err != nil:
			return err
		case e.StoreSeq > t.flow.cursor:
			return aboveCursor(e, t.flow.cursor)
		case e.Settled():
			return fmt.Errorf("%w: sequence %d, %s, is out of place", queue.ErrConflict, e.StoreSeq, e.Status)
		}
		e = t.flow.overlay(e)
		counts[e.Status]++
		t.remember(e)
		if e.Status != ledger.Stored {
			continue
		}
		if err := visit(e.Row()); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("reading: %w", err)
	}
	if counts[ledger.Stored] != t.flow.stored || counts[ledger.DeadLettered] != t.flow.dead {
		return fmt.Errorf("%w: %d rows and %d dead letters, but the store accounts for %d and %d",
			queue.ErrConflict, counts[ledger.Stored], counts[ledger.DeadLettered], t.flow.stored, t.flow.dead)
	}
	return nil
}

// remember keeps the entries that come first: those are named soonest.
func (t *transaction) remember(e ledger.Entry) {
	if len(t.view.order) < mostRemembered/2 {
		t.view.order = append(t.view.order, &held{after: e})
	}
}

// own issues the next epoch and commits.
func (t *transaction) own(ctx context.Context, owner string) (queue.State, mark, error) {
	var random [16]byte
	if _, err := io.ReadFull(t.q.random, random[:]); err != nil {
		return queue.State{}, mark{}, fmt.Errorf("making a mark: %w", err)
	}
	m := mark{epoch: t.flow.epoch + 1, writer: string(random[:])}
	state := queue.State{Cursor: t.flow.cursor, DeadLetters: t.flow.dead, Format: Format, Secret: queue.Secret(t.flow.secret)}
	b := &pgx.Batch{}
	b.Queue(t.q.sql.workers, t.q.flow).Query(func(rows pgx.Rows) (err error) {
		state.Workers, err = pgx.CollectRows(rows, scanWorker)
		return err
	})
	w := writer{b: b, sql: &t.q.sql, flow: t.q.flow}
	w.expect(1, t.q.sql.own, t.q.flow, int64(m.epoch), []byte(m.writer), []byte(owner))
	w.commit(t)
	if err := t.conn.SendBatch(ctx, b).Close(); err != nil {
		return queue.State{}, mark{}, fmt.Errorf("taking over: %w", err)
	}
	t.flow.turn++
	t.flow.epoch, t.flow.writer, t.gone = m.epoch, m.writer, t.flow.accepted
	t.q.learn(t)
	return state, m, nil
}

func scanWorker(row pgx.CollectableRow) (protocol.Incarnation, error) {
	var pod, boot []byte
	err := row.Scan(&pod, &boot)
	return protocol.Incarnation{PodUID: string(pod), BootNonce: string(boot)}, err
}
