package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// Contradicts tells whether a server's error code is a conflict.
var Contradicts = contradicts

// Place gives an error its place in the contract.
func Place(ctx context.Context, q *Queue, err error) error { return q.explain(ctx, err) }

// JobPath are the statements that every job passes through, by name, with arguments of the right types.
func JobPath(q *Queue) map[string]Statement {
	seqs, set, ids := []int64{1, 2, 3}, ranges{{1, 3}}, [][]byte{[]byte("a"), []byte("b")}
	return map[string]Statement{
		"lock":         {q.sql.lock, []any{q.flow}},
		"promise":      {q.sql.promise, nil},
		"by id":        {q.sql.byID, []any{q.flow, ids}},
		"by sequence":  {q.sql.bySeq, []any{q.flow, seqs}},
		"lookup":       {q.sql.lookup, []any{q.flow, ids[0]}},
		"delete jobs":  {q.sql.deleteJobs, []any{q.flow, set}},
		"delete ids":   {q.sql.deleteIDs, []any{q.flow, set}},
		"expired":      {q.sql.expired, []any{q.flow, int64(0), 100}},
		"settled":      {q.sql.settled, []any{q.flow, int64(0), 100}},
		"forget":       {q.sql.forget, []any{q.flow, int64(1), int64(1)}},
		"forget some":  {q.sql.forgetSome, []any{q.flow, int64(1), int64(1), set, int64(3)}},
		"read jobs":    {q.sql.readJobs, []any{q.flow, seqs}},
		"dead letters": {q.sql.deadLetters, []any{q.flow, int64(0), 100}},
		"update jobs":  {q.sql.updateJobs, []any{q.flow, seqs, []int16{1, 1, 1}, []bool{true, true, true}, seqs, seqs, seqs, seqs, [][]byte{{1}, {2}, {3}}}},
		"update ids":   {q.sql.updateIDs, []any{q.flow, seqs, []int16{3, 3, 3}, []bool{true, true, true}, seqs, seqs, seqs, seqs}},
		"rows":         {q.sql.rows, []any{q.flow}},
		"workers":      {q.sql.workers, []any{q.flow}},
		"audit":        {q.sql.audit, []any{q.flow, int64(0), 100}},
		"turn":         {q.sql.turn, []any{q.flow, int64(1), int64(1), int64(1), int64(1), set, int64(0), int64(0), []byte{}, Format}},
	}
}

// Statement is a text with its arguments.
type Statement struct {
	SQL  string
	Args []any
}

// Explain is the plan of a statement in a session of the queue, as lines. The statement is executed and undone if analyze is set.
func Explain(ctx context.Context, q *Queue, s Statement, analyze bool) (plan []string, err error) {
	tx, err := q.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	options := "EXPLAIN (COSTS OFF) "
	if analyze {
		options = "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) "
	}
	if _, err := tx.Exec(ctx, "SET LOCAL plan_cache_mode = force_generic_plan"); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, options+s.SQL, append([]any{pgx.QueryExecModeDescribeExec}, s.Args...)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Setting is the value of a setting in a session of the queue.
func Setting(ctx context.Context, q *Queue, name string) (value string, err error) {
	err = q.pool.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value)
	return value, err
}

// ConnectTimeout bounds the making of a connection.
func ConnectTimeout(q *Queue) time.Duration { return q.pool.Config().ConnConfig.ConnectTimeout }

// Key is the number of the flow in the tables.
func Key(q *Queue) int32 { return q.flow }

// Edit changes the row of a sequence and gives it the checksum of what it says then.
func Edit(ctx context.Context, q *Queue, seq int64, assignment string) error {
	if _, err := q.pool.Exec(ctx, `UPDATE workpulling.jobs SET `+assignment+` WHERE flow = $1 AND seq = $2`, q.flow, seq); err != nil {
		return err
	}
	rows, err := q.pool.Query(ctx, `SELECT `+entryOfJob+` FROM workpulling.jobs WHERE flow = $1`, q.flow)
	if err != nil {
		return err
	}
	entries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (ledger.Entry, error) {
		e, _, err := readEntry(row)
		return e, err
	})
	for _, e := range entries {
		_, failure := q.pool.Exec(ctx, `UPDATE workpulling.jobs SET sum = $3 WHERE flow = $1 AND seq = $2`, q.flow, e.StoreSeq, checksum(e))
		err = errors.Join(err, failure)
	}
	return err
}

// Exec runs a statement in a session of the queue.
func Exec(ctx context.Context, q *Queue, sql string, args ...any) error {
	_, err := q.pool.Exec(ctx, sql, args...)
	return err
}

// Format1 makes the tables of format 1 in an empty database, with one flow as a build of that time would have left it: the entries, each with
// "payload of " its id, and an epoch of 3 under no mark.
func Format1(ctx context.Context, connString, flowUID string, cursor int64, entries []ledger.Entry) (err error) {
	pool, _, err := connect(ctx, Options{ConnString: connString})
	if err != nil {
		return err
	}
	defer pool.Close()
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return step(ctx, tx, DefaultSchema, 0) })
	if err != nil {
		return err
	}
	var flow int32
	counts := map[ledger.Status]int64{}
	for _, e := range entries {
		counts[e.Status]++
	}
	if err := pool.QueryRow(ctx, `INSERT INTO workpulling.flows (uid, epoch, last_seq, stored, dead, secret) VALUES ($1, 3, $2, $3, $4, $5) RETURNING flow`,
		flowUID, cursor, counts[ledger.Stored], counts[ledger.DeadLettered], make([]byte, 32)).Scan(&flow); err != nil {
		return err
	}
	for _, e := range entries {
		common := []any{
			flow, e.StoreSeq, int16(e.Status), e.Accepted, int64(e.Attempts), int64(e.Uncounted), e.StoredAt.UnixNano(), sinceOf(e), checksum(e),
			[]byte(e.MessageID), e.Digest[:],
		}
		if e.Settled() {
			_, err = pool.Exec(ctx, `INSERT INTO workpulling.settled (flow, seq, status, accepted, attempts, uncounted, stored_at, since, sum, message_id, digest)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`, common...)
		} else {
			b := body{headers: []byte{}, payload: []byte("payload of " + e.MessageID)}
			_, err = pool.Exec(ctx, `INSERT INTO workpulling.jobs (flow, seq, status, accepted, attempts, uncounted, stored_at, since, sum, message_id, digest,
				payload_bytes, reason, headers, payload, body_sum) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
				append(common, e.PayloadBytes, []byte(e.Reason), b.headers, b.payload, b.checksum(e.JobRef))...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Remembered is how many transactions of the queue rested on what the one before had left.
func Remembered(q *Queue) int { return q.remembered }

// MostAccepted bounds the spans in the flow's row.
const MostAccepted = mostAccepted
