package postgres

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// writer queues the statements of a transaction: one for each kind of change, whatever their number.
type writer struct {
	b    *pgx.Batch
	sql  *statements
	flow int32
}

// expect queues a statement that must touch a number of rows. All of them were read under the lock, so another number means that
// somebody changes rows without it.
func (w *writer) expect(rows int, sql string, args ...any) {
	w.b.Queue(sql, args...).Exec(func(tag pgconn.CommandTag) error { return touched(tag, rows) })
}

func touched(tag pgconn.CommandTag, rows int) error {
	if tag.RowsAffected() != int64(rows) {
		return fmt.Errorf("%w: %d rows changed instead of %d; somebody changes them without the flow's lock", queue.ErrConflict, tag.RowsAffected(), rows)
	}
	return nil
}

// turn queues the update of the flow's row, which ends the transaction if it rests on what is not so.
func (w *writer) turn(t *transaction) {
	w.b.Queue(w.sql.turn, w.flow, t.flow.cursor, t.flow.stored, t.flow.dead, t.flow.audited, t.flow.accepted,
		t.met.turn, int64(t.met.epoch), []byte(t.met.writer), Format)
}

// commit queues the last look at the clock and the end of the transaction.
func (w *writer) commit(t *transaction) {
	conn := t.conn.Conn().PgConn()
	w.b.Queue(w.sql.promise).QueryRow(func(row pgx.Row) error {
		heed(conn) // what it warned of so far is not about the commit
		var now int64
		err := row.Scan(&now, nil)
		t.said, t.heard = fromNanos(now), time.Now() //nolint:forbidigo // a measurement, by the clock that nobody sets
		return err
	})
	w.b.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return fmt.Errorf("committing: the server answered %s", tag)
		}
		if warning := heed(conn); warning != "" {
			return fmt.Errorf("committing: the server warns: %s", warning)
		}
		return nil
	})
}

// entries sorts the changed entries by what has to be done with them.
func (w *writer) entries(t *transaction) {
	var fresh, bodies, altered, reworded []*held
	var over, left []int64
	for _, h := range t.view.order {
		if !h.dirty {
			continue
		}
		if h.fresh {
			fresh = append(fresh, h)
		}
		switch is := h.after.Settled(); {
		case is && !h.settled && !h.fresh:
			over = append(over, h.after.StoreSeq)
			fallthrough
		case is && !h.settled:
			if plain(h.after) {
				left = append(left, h.after.StoreSeq)
			} else {
				reworded = append(reworded, h)
			}
		case is:
			reworded = append(reworded, h)
		case h.fresh:
			bodies = append(bodies, h)
			fallthrough
		default:
			if h.altered {
				altered = append(altered, h)
			}
		}
	}
	if len(fresh) > 0 {
		w.expect(len(fresh), w.sql.insertIDs, idsOf(w.flow, fresh)...)
	}
	w.insertJobs(bodies)
	w.updateJobs(altered)
	if len(over) > 0 {
		w.expect(len(over), w.sql.deleteJobs, w.flow, of(over))
	}
	w.updateIDs(reworded)
	if len(left) > 0 {
		w.expect(1, w.sql.settle, w.flow, t.now.UnixNano(), t.met.turn+1, int64(len(left)), of(left))
	}
}

// column collects one value of each entry.
func column[T any](entries []*held, value func(e ledger.Entry) T) []T {
	values := make([]T, len(entries))
	for i, h := range entries {
		values[i] = value(h.after)
	}
	return values
}

func seqOf(e ledger.Entry) int64       { return e.StoreSeq }
func statusOf(e ledger.Entry) int16    { return int16(e.Status) }
func acceptedOf(e ledger.Entry) bool   { return e.Accepted }
func attemptsOf(e ledger.Entry) int64  { return int64(e.Attempts) }
func uncountedOf(e ledger.Entry) int64 { return int64(e.Uncounted) }
func reasonOf(e ledger.Entry) []byte   { return []byte(e.Reason) }

// idsOf are the arguments of insertIDs: the tombstones that entries will leave.
func idsOf(flow int32, entries []*held) []any {
	var room []byte
	sum := func(h *held) (sum int64) {
		room = appendEntry(room[:0], tombstone(h.after))
		return checksumOf(room)
	}
	return append([]any{flow}, keysOf(entries, sum)...)
}

// keysOf are what the rows of a job and of its id have in common; sum is that of the row.
func keysOf(entries []*held, sum func(h *held) int64) []any {
	return []any{
		numbers(entries, func(h *held) int64 { return h.after.StoreSeq }),
		numbers(entries, func(h *held) int64 { return h.after.StoredAt.UnixNano() }),
		numbers(entries, sum),
		texts(entries, 48, func(buf []byte, h *held) []byte { return append(buf, h.after.MessageID...) }),
		texts(entries, 32, func(buf []byte, h *held) []byte { return append(buf, h.after.Digest[:]...) }),
	}
}

func (w *writer) insertJobs(entries []*held) {
	if len(entries) == 0 {
		return
	}
	var room []byte
	sum := func(h *held) int64 {
		room = appendEntry(room[:0], newborn(h.after))
		return checksumOf(room)
	}
	bodySum := func(h *held) int64 {
		room = h.body.appendHead(room[:0], h.after.JobRef)
		return h.body.checksumAfter(room)
	}
	payload := 0
	for _, h := range entries {
		payload += len(h.body.payload)
	}
	w.expect(len(entries), w.sql.insertJobs, append(append([]any{w.flow}, keysOf(entries, sum)...),
		texts(entries, 64, func(buf []byte, h *held) []byte { return append(buf, h.body.headers...) }),
		texts(entries, payload/len(entries)+1, func(buf []byte, h *held) []byte { return append(buf, h.body.payload...) }),
		numbers(entries, bodySum))...)
}

func (w *writer) updateJobs(entries []*held) {
	if len(entries) == 0 {
		return
	}
	w.expect(len(entries), w.sql.updateJobs, w.flow, column(entries, seqOf), column(entries, statusOf), column(entries, acceptedOf),
		column(entries, attemptsOf), column(entries, uncountedOf), column(entries, sinceOf), column(entries, checksum), column(entries, reasonOf))
}

func (w *writer) updateIDs(entries []*held) {
	if len(entries) == 0 {
		return
	}
	w.expect(len(entries), w.sql.updateIDs, w.flow, column(entries, seqOf), column(entries, statusOf), column(entries, acceptedOf),
		column(entries, attemptsOf), column(entries, uncountedOf), column(entries, sinceOf), column(entries, checksum))
}

// workers replaces the recorded incarnations and touches only those that differ.
func (w *writer) workers(workers []protocol.Incarnation) {
	if workers == nil {
		return
	}
	pods, boots := make([][]byte, len(workers)), make([][]byte, len(workers))
	for i, worker := range workers {
		pods[i], boots[i] = []byte(worker.PodUID), []byte(worker.BootNonce)
	}
	w.b.Queue(w.sql.keepWorkers, w.flow, pods, boots)
	w.b.Queue(w.sql.addWorkers, w.flow, pods, boots)
}

// audit adds lines and drops the oldest beyond the bound.
func (w *writer) audit(lines []queue.AuditLine, last int64) {
	if len(lines) == 0 {
		return
	}
	n := len(lines)
	numbers, times, actions := make([]int64, n), make([]int64, n), make([]string, n)
	seqs, ids, texts := make([]int64, n), make([][]byte, n), make([][]byte, n)
	for i, line := range lines {
		numbers[i], times[i], actions[i] = int64(line.Number), line.At.UnixNano(), line.Action
		seqs[i], ids[i], texts[i] = line.StoreSeq, []byte(line.MessageID), []byte(line.Text)
	}
	w.expect(n, w.sql.addAudit, w.flow, numbers, times, actions, seqs, ids, texts)
	w.b.Queue(w.sql.trimAudit, w.flow, last-queue.MaxAuditLines)
}
