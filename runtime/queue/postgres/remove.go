package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// removeChunk is how many rows one transaction of Remove deletes.
const removeChunk = 10_000

// Remove deletes all that a database holds of one flow, jobs and tombstones included. It is for flows that were deleted: whoever still
// writes is fenced first, and finds its flow gone. It may be repeated, also after it was broken off. False means that the database holds
// nothing of that flow. Errors are as those of New.
func Remove(ctx context.Context, options Options) (found bool, err error) {
	if err := protocol.CheckID("flow UID", options.FlowUID); err != nil {
		return false, err
	}
	pool, hide, err := connect(ctx, options)
	if err != nil {
		return false, err
	}
	defer pool.Close()
	q := &Queue{pool: pool, hide: hide, sql: statementsIn(cmp.Or(options.Schema, DefaultSchema))}
	version, err := formatOf(ctx, pool, cmp.Or(options.Schema, DefaultSchema))
	if err == nil && version > 0 {
		found, err = q.remove(ctx, version, options.FlowUID)
	}
	if err != nil {
		return found, fmt.Errorf("removing the queue from PostgreSQL: %w", q.explain(ctx, err))
	}
	return found, nil
}

// remove leaves the format of the tables as it is: writers of other flows may be of a build that reads no newer one.
func (q *Queue) remove(ctx context.Context, version int, flowUID string) (found bool, err error) {
	fence, drops := q.sql.fenceAll, []string{q.sql.dropJobs, q.sql.dropIDs, q.sql.dropSettlements}
	if version == 1 {
		fence, drops = q.sql.fenceFirst, []string{q.sql.dropJobs, q.sql.dropSettled}
	}
	if err := q.pool.QueryRow(ctx, fence, flowUID).Scan(&q.flow); err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		return false, err
	}
	for _, sql := range drops {
		if err := removeAll(ctx, q.pool, sql, q.flow); err != nil {
			return true, err
		}
	}
	b := &pgx.Batch{} // one implicit transaction
	for _, sql := range []string{q.sql.dropWorkers, q.sql.dropAudit, q.sql.dropFlow} {
		b.Queue(sql, q.flow)
	}
	return true, q.pool.SendBatch(ctx, b).Close()
}

func removeAll(ctx context.Context, pool *pgxpool.Pool, sql string, flow int32) error {
	for {
		tag, err := pool.Exec(ctx, sql, flow, removeChunk)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
	}
}
