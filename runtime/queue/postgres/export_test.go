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

// JobPath are the statements that every job passes through, by name, with arguments of the right types.
func JobPath(q *Queue) map[string]Statement {
	seqs, ids := []int64{1, 2, 3}, [][]byte{[]byte("a"), []byte("b")}
	return map[string]Statement{
		"lock":           {q.sql.lock, []any{q.flow}},
		"promise":        {q.sql.promise, nil},
		"by id":          {q.sql.byID, []any{q.flow, ids}},
		"by sequence":    {q.sql.bySeq, []any{q.flow, seqs}},
		"delete jobs":    {q.sql.deleteJobs, []any{q.flow, seqs}},
		"compact":        {q.sql.deleteSettled, []any{q.flow, int64(0), 100}},
		"read jobs":      {q.sql.readJobs, []any{q.flow, seqs}},
		"dead letters":   {q.sql.deadLetters, []any{q.flow, int64(0), 100}},
		"update jobs":    {q.sql.updateJobs, []any{q.flow, seqs, []int16{1, 1, 1}, []bool{true, true, true}, seqs, seqs, seqs, seqs, [][]byte{{1}, {2}, {3}}}},
		"update settled": {q.sql.updateSettled, []any{q.flow, seqs, []bool{true, true, true}, seqs, seqs}},
		"rows":           {q.sql.rows, []any{q.flow}},
		"workers":        {q.sql.workers, []any{q.flow}},
		"audit":          {q.sql.audit, []any{q.flow, int64(0), 100}},
		"finish":         {q.sql.finish, []any{q.flow, int64(1), int64(1), int64(1), int64(1)}},
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
