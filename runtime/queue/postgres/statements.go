package postgres

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// statements are the texts for one schema.
type statements struct {
	addFlow, findFlow, owner           string
	begin, lock, promise, byID, bySeq  string
	turn, own                          string
	insertJobs, updateJobs, deleteJobs string
	insertIDs, updateIDs, deleteIDs    string
	settle, expired, settled           string
	forget, forgetSome                 string
	keepWorkers, addWorkers, workers   string
	addAudit, trimAudit, audit         string
	rows                               string
	readJobs, lookup                   string
	deadLetters, orphans               string
	fenceAll, dropJobs, dropIDs        string
	dropSettlements                    string
	dropWorkers, dropAudit, dropFlow   string
	fenceFirst, dropSettled            string // of tables of format 1
}

// entryOfJob and entryOfID are the columns of an entry, in the order in which readEntry takes them.
const (
	entryOfJob = `seq, status, accepted, attempts, uncounted, payload_bytes, stored_at, since, sum, message_id, digest, reason`
	entryOfID  = `seq, status, accepted, attempts, uncounted, 0, stored_at, since, sum, message_id, digest, ''::bytea`
)

// bySeqOf, byIDOf and inRange find the rows of one key, or of one range of keys, by their index, whatever the planner believes. It goes by
// statistics: where those do not know the flow yet, it takes the flow for nearly empty, reads all of it by any index that begins with
// it, and compares each row with each key. A range in order, if only of one value, it can have from the one index alone (sorting is off),
// and then with both columns; OFFSET 0 keeps it from seeing through the subquery. What is changed is reached by its place for the same reason.
const (
	bySeqOf = `flow = $1 AND seq BETWEEN u.n AND u.n ORDER BY seq OFFSET 0`
	byIDOf  = `flow = $1 AND message_id BETWEEN u.id AND u.id ORDER BY message_id OFFSET 0`
	inRange = `flow = $1 AND seq BETWEEN lower(u.r) AND upper(u.r) - 1 ORDER BY seq OFFSET 0`

	// ofID is the tombstone of an id and, where it is not over, the job.
	ofID = `(SELECT seq AS n FROM $S.ids WHERE $BY_ID) AS k CROSS JOIN LATERAL (
		(SELECT $JOB FROM $S.jobs WHERE flow = $1 AND seq BETWEEN k.n AND k.n ORDER BY seq OFFSET 0)
		UNION ALL (SELECT $ENTRY FROM $S.ids WHERE $BY_ID)) AS e`
)

// insertIDs writes the tombstones that jobs will leave.
const insertIDs = `INSERT INTO $S.ids (flow, seq, status, accepted, attempts, uncounted, stored_at, sum, message_id, digest)
	SELECT $1::integer, u.seq, 3, true, 0, 0, u.at, u.sum, u.id, u.digest
	FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[]) AS u (seq, at, sum, id, digest)`

func statementsIn(schema string) statements {
	names := strings.NewReplacer("$ENTRY", entryOfID, "$JOB", entryOfJob, "$BY_SEQ", bySeqOf, "$BY_ID", byIDOf, "$IN_RANGE", inRange,
		"$S", pgx.Identifier{schema}.Sanitize())
	in := func(text string) string { return names.Replace(strings.ReplaceAll(text, "$OF_ID", ofID)) }
	return statements{
		addFlow:  in(`INSERT INTO $S.flows (uid, secret) VALUES ($1, $2) ON CONFLICT (uid) DO NOTHING`),
		findFlow: in(`SELECT flow FROM $S.flows WHERE uid = $1`),
		owner:    in(`SELECT epoch, owner FROM $S.flows WHERE flow = $1`),

		begin: `BEGIN`,
		lock: in(`SELECT epoch, turn, last_seq, stored, dead, audited, accepted, writer, secret, (SELECT version FROM $S.format)
			FROM $S.flows WHERE flow = $1 FOR UPDATE`),
		// The time is the server's, which all members share: a window must not depend on how well their clocks agree. Committed means
		// flushed also where a pooler gives each transaction another session than the one that was set up.
		promise: `SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint,
			CASE WHEN current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN set_config('synchronous_commit', 'on', true) END`,
		byID: in(`SELECT e.* FROM unnest($2::bytea[]) AS u (id) CROSS JOIN LATERAL $OF_ID`),
		bySeq: in(`SELECT e.* FROM unnest($2::bigint[]) AS u (n) CROSS JOIN LATERAL (
			(SELECT $JOB FROM $S.jobs WHERE $BY_SEQ) UNION ALL (SELECT $ENTRY FROM $S.ids WHERE $BY_SEQ)) AS e`),

		// What a transaction rests on is said once more here, and that it is so is the server's word: otherwise this divides by zero, and
		// nothing of the transaction happens. It locks the flow's row where that is not locked yet.
		turn: in(`WITH taken AS (
			UPDATE $S.flows SET turn = turn + 1, last_seq = $2, stored = $3, dead = $4, audited = $5, accepted = $6
			WHERE flow = $1 AND turn = $7 AND epoch = $8 AND writer = $9 AND (SELECT version FROM $S.format) = $10 RETURNING flow)
			SELECT 1 / count(*) FROM taken`),
		own: in(`UPDATE $S.flows SET turn = turn + 1, epoch = $2, writer = $3, owner = $4 WHERE flow = $1`),

		insertJobs: in(`INSERT INTO $S.jobs (flow, seq, status, accepted, attempts, uncounted, payload_bytes, stored_at, sum, message_id, digest,
				reason, headers, payload, body_sum)
			SELECT $1::integer, u.seq, 1, false, 0, 0, octet_length(u.payload), u.at, u.sum, u.id, u.digest, '', u.headers, u.payload, u.body_sum
			FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[], $9::bigint[])
				AS u (seq, at, sum, id, digest, headers, payload, body_sum)`),
		updateJobs: in(`UPDATE $S.jobs AS j SET status = u.status, accepted = u.accepted, attempts = u.attempts, uncounted = u.uncounted,
				since = u.since, sum = u.sum, reason = u.reason
			FROM unnest($2::bigint[], $3::smallint[], $4::boolean[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bytea[])
				AS u (n, status, accepted, attempts, uncounted, since, sum, reason)
			CROSS JOIN LATERAL (SELECT ctid FROM $S.jobs WHERE $BY_SEQ) AS at
			WHERE j.ctid = at.ctid`),
		deleteJobs: in(`DELETE FROM $S.jobs WHERE ctid = ANY(ARRAY(
			SELECT at.ctid FROM unnest($2::int8multirange) AS u (r)
			CROSS JOIN LATERAL (SELECT ctid FROM $S.jobs WHERE $IN_RANGE) AS at))`),

		insertIDs: in(insertIDs),
		updateIDs: in(`UPDATE $S.ids AS i SET status = u.status, accepted = u.accepted, attempts = u.attempts, uncounted = u.uncounted,
				since = u.since, sum = u.sum
			FROM unnest($2::bigint[], $3::smallint[], $4::boolean[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
				AS u (n, status, accepted, attempts, uncounted, since, sum)
			CROSS JOIN LATERAL (SELECT ctid FROM $S.ids WHERE $BY_SEQ) AS at
			WHERE i.ctid = at.ctid`),
		deleteIDs: in(`DELETE FROM $S.ids WHERE ctid = ANY(ARRAY(
			SELECT at.ctid FROM unnest($2::int8multirange) AS u (r)
			CROSS JOIN LATERAL (SELECT ctid FROM $S.ids WHERE $IN_RANGE) AS at))`),

		settle: in(`INSERT INTO $S.settlements (flow, since, turn, jobs, seqs) VALUES ($1, $2, $3, $4, $5)`),
		// Both are the oldest whose window is over, enough for a limit: tombstones that bear its start, and those that do not.
		expired: in(`SELECT since, seq FROM $S.ids WHERE flow = $1 AND since IS NOT NULL AND since <= $2 ORDER BY flow, since, seq LIMIT $3`),
		settled: in(`SELECT since, turn, seqs FROM (
				SELECT since, turn, seqs, sum(jobs) OVER (ORDER BY since, turn ROWS UNBOUNDED PRECEDING) - jobs AS older
				FROM $S.settlements WHERE flow = $1 AND since <= $2 ORDER BY since, turn LIMIT $3) AS s
			WHERE older < $3`),
		forget: in(`DELETE FROM $S.settlements WHERE flow = $1 AND since = $2 AND turn = $3`),
		forgetSome: in(`UPDATE $S.settlements SET seqs = seqs - $4::int8multirange, jobs = jobs - $5
			WHERE flow = $1 AND since = $2 AND turn = $3`),

		keepWorkers: in(`DELETE FROM $S.workers AS w WHERE flow = $1 AND NOT EXISTS (
			SELECT FROM unnest($2::bytea[], $3::bytea[]) AS u (pod_uid, boot_nonce)
			WHERE u.pod_uid = w.pod_uid AND u.boot_nonce = w.boot_nonce)`),
		addWorkers: in(`INSERT INTO $S.workers (flow, pod_uid, boot_nonce)
			SELECT $1::integer, * FROM unnest($2::bytea[], $3::bytea[]) ON CONFLICT DO NOTHING`),
		workers: in(`SELECT pod_uid, boot_nonce FROM $S.workers WHERE flow = $1`),

		addAudit: in(`INSERT INTO $S.audit (flow, number, at, action, seq, message_id, line)
			SELECT $1::integer, * FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bytea[], $7::bytea[])`),
		trimAudit: in(`DELETE FROM $S.audit WHERE flow = $1 AND number <= $2`),
		audit: in(`SELECT number, at, action, seq, message_id, line FROM $S.audit
			WHERE flow = $1 AND number > $2 ORDER BY flow, number LIMIT $3`),

		rows: in(`SELECT $JOB FROM $S.jobs WHERE flow = $1 ORDER BY flow, seq`),

		readJobs: in(`SELECT j.* FROM unnest($2::bigint[]) AS u (n) CROSS JOIN LATERAL (
			SELECT seq, message_id, headers, payload, body_sum FROM $S.jobs WHERE $BY_SEQ) AS j`),
		lookup: in(`SELECT e.*, e.seq <@ (SELECT accepted FROM $S.flows WHERE flow = $1)
			FROM (SELECT $2::bytea) AS u (id) CROSS JOIN LATERAL $OF_ID`),
		deadLetters: in(`SELECT $JOB FROM $S.jobs WHERE flow = $1 AND seq > $2 AND status = 2 ORDER BY flow, seq LIMIT $3`),
		orphans: in(`(SELECT $JOB FROM $S.jobs WHERE flow = $1 AND seq > $2 AND NOT accepted AND stored_at < $3
				AND NOT seq <@ (SELECT accepted FROM $S.flows WHERE flow = $1) ORDER BY flow, seq LIMIT $4)
			UNION ALL
			(SELECT $ENTRY FROM $S.ids WHERE flow = $1 AND seq > $2 AND NOT accepted AND stored_at < $3 ORDER BY flow, seq LIMIT $4)`),

		fenceAll: in(`UPDATE $S.flows SET turn = turn + 1, epoch = epoch + 1, writer = '' WHERE uid = $1 RETURNING flow`),
		dropJobs: in(`DELETE FROM $S.jobs WHERE ctid = ANY(ARRAY(SELECT ctid FROM $S.jobs WHERE flow = $1 ORDER BY flow, seq LIMIT $2))`),
		dropIDs:  in(`DELETE FROM $S.ids WHERE ctid = ANY(ARRAY(SELECT ctid FROM $S.ids WHERE flow = $1 ORDER BY flow, seq LIMIT $2))`),
		dropSettlements: in(`DELETE FROM $S.settlements WHERE ctid = ANY(ARRAY(
			SELECT ctid FROM $S.settlements WHERE flow = $1 ORDER BY flow, since, turn LIMIT $2))`),
		dropWorkers: in(`DELETE FROM $S.workers WHERE flow = $1`),
		dropAudit:   in(`DELETE FROM $S.audit WHERE flow = $1`),
		dropFlow:    in(`DELETE FROM $S.flows WHERE flow = $1`),

		fenceFirst:  in(`UPDATE $S.flows SET epoch = epoch + 1, writer = '' WHERE uid = $1 RETURNING flow`),
		dropSettled: in(`DELETE FROM $S.settled WHERE ctid = ANY(ARRAY(SELECT ctid FROM $S.settled WHERE flow = $1 ORDER BY flow, seq LIMIT $2))`),
	}
}
