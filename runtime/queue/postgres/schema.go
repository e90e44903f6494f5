package postgres

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/workpulling/workpulling/runtime/queue"
)

// migration leads from one format to the next: a text, where $S stands for the quoted schema, and what no text can do.
type migration struct {
	text string
	then func(ctx context.Context, tx pgx.Tx, quoted string) error
}

// migrations: the first makes format 1 out of nothing. One that was released is never changed.
//
// Texts that came from outside are bytea, so that no database encoding or collation has a say in them; times are nanoseconds since
// 1970, because timestamptz ends at microseconds.
var migrations = []migration{{text: `
CREATE TABLE $S.format (
	one     boolean PRIMARY KEY DEFAULT true CHECK (one),
	version integer NOT NULL
);
INSERT INTO $S.format (version) VALUES (0);

-- One row a flow, locked and rewritten by every transaction: room for its versions in its page, and frequent vacuum.
CREATE TABLE $S.flows (
	flow     integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	uid      text    NOT NULL UNIQUE,
	epoch    bigint  NOT NULL DEFAULT 0,
	last_seq bigint  NOT NULL DEFAULT 0, -- the append cursor
	stored   bigint  NOT NULL DEFAULT 0, -- rows of jobs with status 1
	dead     bigint  NOT NULL DEFAULT 0, -- rows of jobs with status 2
	audited  bigint  NOT NULL DEFAULT 0, -- number of the last audit line
	writer   bytea   NOT NULL DEFAULT '', -- mark of the last load
	owner    bytea   NOT NULL DEFAULT '', -- address of the last load
	secret   bytea   NOT NULL
) WITH (fillfactor = 25, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, vacuum_truncate = off);

-- Unsettled jobs: stored (1) and dead-lettered (2). Accepts and attempts change no indexed column and find room in their page.
CREATE TABLE $S.jobs (
	flow          integer  NOT NULL,
	seq           bigint   NOT NULL,
	stored_at     bigint   NOT NULL,
	since         bigint,
	attempts      bigint   NOT NULL,
	uncounted     bigint   NOT NULL,
	sum           bigint   NOT NULL, -- CRC-32C of the row without its bytes
	body_sum      bigint   NOT NULL, -- CRC-32C of the bytes
	payload_bytes integer  NOT NULL,
	status        smallint NOT NULL,
	accepted      boolean  NOT NULL,
	message_id    bytea    NOT NULL,
	digest        bytea    NOT NULL,
	reason        bytea    NOT NULL,
	headers       bytea    NOT NULL,
	payload       bytea    NOT NULL,
	CONSTRAINT jobs_key PRIMARY KEY (flow, seq),
	CONSTRAINT jobs_id UNIQUE (flow, message_id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 1);
ALTER TABLE $S.jobs ALTER COLUMN payload SET STORAGE EXTERNAL, ALTER COLUMN headers SET STORAGE EXTERNAL;
CREATE INDEX jobs_dead ON $S.jobs (flow, seq) WHERE status = 2;

-- Tombstones: confirmed (3) and dropped (4).
CREATE TABLE $S.settled (
	flow       integer  NOT NULL,
	seq        bigint   NOT NULL,
	stored_at  bigint   NOT NULL,
	since      bigint, -- start of the deduplication window
	attempts   bigint   NOT NULL,
	uncounted  bigint   NOT NULL,
	sum        bigint   NOT NULL,
	status     smallint NOT NULL,
	accepted   boolean  NOT NULL,
	message_id bytea    NOT NULL,
	digest     bytea    NOT NULL,
	CONSTRAINT settled_key PRIMARY KEY (flow, seq),
	CONSTRAINT settled_id UNIQUE (flow, message_id)
) WITH (fillfactor = 95, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 1);
CREATE INDEX settled_aging ON $S.settled (flow, since, seq) WHERE since IS NOT NULL;

CREATE TABLE $S.workers (
	flow       integer NOT NULL,
	pod_uid    bytea   NOT NULL,
	boot_nonce bytea   NOT NULL,
	PRIMARY KEY (flow, pod_uid, boot_nonce)
);

CREATE TABLE $S.audit (
	flow       integer NOT NULL,
	number     bigint  NOT NULL,
	at         bigint  NOT NULL,
	action     text    NOT NULL,
	seq        bigint  NOT NULL,
	message_id bytea   NOT NULL,
	line       bytea   NOT NULL,
	PRIMARY KEY (flow, number)
);
`}, {text: `
ALTER TABLE $S.flows
	ADD COLUMN turn     bigint         NOT NULL DEFAULT 0,   -- of the last transaction
	ADD COLUMN accepted int8multirange NOT NULL DEFAULT '{}'; -- sequences of jobs that are accepted, whatever their rows say, or gone

-- One row for each id that is remembered: the tombstone that its job leaves. It counts where the job has no row any more. Nearly all are
-- never changed: confirmed, accepted, at the first attempt. The others bear the start of their window.
ALTER TABLE $S.settled RENAME TO ids;
ALTER TABLE $S.ids RENAME CONSTRAINT settled_key TO ids_key;
ALTER TABLE $S.ids RENAME CONSTRAINT settled_id TO ids_id;
ALTER INDEX $S.settled_aging RENAME TO ids_aging;
CREATE INDEX ids_orphans ON $S.ids (flow, seq) WHERE NOT accepted;
ALTER TABLE $S.jobs DROP CONSTRAINT jobs_id;
ALTER TABLE $S.jobs SET (fillfactor = 95); -- most rows are never updated

-- The jobs that one transaction settled without a change of their tombstones, and the start of their window.
CREATE TABLE $S.settlements (
	flow  integer        NOT NULL,
	since bigint         NOT NULL,
	turn  bigint         NOT NULL,
	jobs  bigint         NOT NULL, -- the number of seqs
	seqs  int8multirange NOT NULL,
	PRIMARY KEY (flow, since, turn)
);
`, then: addTombstones}}

// addTombstones gives each job of format 1 the row of its id. Only we can: the row bears a checksum. Its statements stay those of format 2,
// also in a build that has newer ones.
func addTombstones(ctx context.Context, tx pgx.Tx, quoted string) error {
	const chunk = 10_000
	jobs := strings.ReplaceAll(`SELECT `+entryOfJob+`, flow FROM $S.jobs WHERE (flow, seq) > ($1, $2) ORDER BY flow, seq LIMIT $3`, "$S", quoted)
	insert := strings.ReplaceAll(insertIDs, "$S", quoted)
	flow, seq := int32(math.MinInt32), int64(0)
	for {
		rows, err := tx.Query(ctx, jobs, flow, seq, chunk)
		if err != nil {
			return err
		}
		var flows []int32
		entries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*held, error) {
			var of int32
			e, err := scanEntryAnd(row, &of)
			flows = append(flows, of)
			return &held{after: e}, err
		})
		if err != nil || len(entries) == 0 {
			return err
		}
		for start := 0; start < len(entries); { // flow by flow
			end := start + 1
			for end < len(entries) && flows[end] == flows[start] {
				end++
			}
			if _, err := tx.Exec(ctx, insert, idsOf(flows[start], entries[start:end])...); err != nil {
				return err
			}
			start = end
		}
		flow, seq = flows[len(flows)-1], entries[len(entries)-1].after.StoreSeq
	}
}

// migrate brings the schema to this build's format, or finds that it is newer and leaves it alone. Processes that start at once
// take turns.
func migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	version, err := formatOf(ctx, pool, schema)
	if err != nil || version == Format {
		return err // most starts end here, without asking for rights to create anything
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('workpulling queue ' || $1, 0))`, schema); err != nil {
			return fmt.Errorf("waiting for another migration: %w", err)
		}
		version, err := formatOf(ctx, tx, schema)
		if err != nil {
			return err
		}
		for ; version < Format; version++ {
			if err := step(ctx, tx, schema, version); err != nil {
				return fmt.Errorf("migrating from format %d: %w", version, err)
			}
		}
		return nil
	})
}

// step leads from one version to the next.
func step(ctx context.Context, tx pgx.Tx, schema string, version int) error {
	quoted := pgx.Identifier{schema}.Sanitize()
	var there bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, schema).Scan(&there); err != nil {
		return err
	}
	if !there { // IF NOT EXISTS would ask for the right to create schemas even where there is nothing to create
		if _, err := tx.Exec(ctx, "CREATE SCHEMA "+quoted); err != nil {
			return err
		}
	}
	text := strings.ReplaceAll(migrations[version].text, "$S", quoted)
	if _, err := tx.Conn().PgConn().Exec(ctx, text).ReadAll(); err != nil {
		return err
	}
	if then := migrations[version].then; then != nil {
		if err := then(ctx, tx, quoted); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, "UPDATE "+quoted+".format SET version = $1", version+1)
	return err
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// formatOf is the version of the tables, and 0 where there are none.
func formatOf(ctx context.Context, db querier, schema string) (version int, err error) {
	table := pgx.Identifier{schema, "format"}.Sanitize()
	var there bool
	// to_regclass would answer from a cache that does not know yet what a migration has made that we waited for.
	if err := db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = 'format')`, schema).Scan(&there); err != nil || !there {
		return 0, err
	}
	if err := db.QueryRow(ctx, "SELECT version FROM "+table).Scan(&version); err != nil {
		return 0, fmt.Errorf("reading the format: %w", err)
	}
	return version, checkFormat(version)
}

func checkFormat(version int) error {
	if version > Format {
		return fmt.Errorf("%w: the tables have format %d, this build reads up to %d; use the newer build again or drain the queue with it",
			queue.ErrUnsupportedFormat, version, Format)
	}
	return nil
}
