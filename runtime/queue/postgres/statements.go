package postgres

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// statements are the texts for one schema.
type statements struct {
	addFlow, findFlow, owner                    string
	begin, lock, promise, byID, bySeq           string
	insertJobs, updateJobs, deleteJobs          string
	insertSettled, updateSettled, deleteSettled string
	keepWorkers, addWorkers, workers            string
	addAudit, trimAudit, audit                  string
	finish, own, rows                           string
	readJobs, deadLetters, orphans              string
	fenceAll, dropJobs, dropSettled             string
	dropWorkers, dropAudit, dropFlow            string
}

// entryOfJob and entryOfSettled are the columns of an entry, in the order in which readEntry takes them.
const (
	entryOfJob     = `seq, status, accepted, attempts, uncounted, payload_bytes, stored_at, since, sum, message_id, digest, reason`
	entryOfSettled = `seq, status, accepted, attempts, uncounted, 0, stored_at, since, sum, message_id, digest, ''::bytea`
)

// bySeqOf and byIDOf find the row of one key by its index, whatever the planner believes. It goes by statistics: where those do not know
// the flow yet, it takes the flow for nearly empty, reads all of it by any index that begins with it, and compares each row with each
// key. A range in order, of one value, it can have from the one index alone (sorting is off), and then with both columns; OFFSET 0 keeps
// it from seeing through the subquery. What is changed is reached by its place for the same reason.
const (
	bySeqOf = `flow = $1 AND seq BETWEEN u.n AND u.n ORDER BY seq OFFSET 0`
	byIDOf  = `flow = $1 AND message_id BETWEEN u.id AND u.id ORDER BY message_id OFFSET 0`
)

func statementsIn(schema string) statements {
	in := func(text string) string {
		return strings.NewReplacer("$SETTLED", entryOfSettled, "$JOB", entryOfJob, "$BY_SEQ", bySeqOf, "$BY_ID", byIDOf,
			"$S", pgx.Identifier{schema}.Sanitize()).Replace(text)
	}
	return statements{
		addFlow:  in(`INSERT INTO $S.flows (uid, secret) VALUES ($1, $2) ON CONFLICT (uid) DO NOTHING`),
		findFlow: in(`SELECT flow FROM $S.flows WHERE uid = $1`),
		owner:    in(`SELECT epoch, owner FROM $S.flows WHERE flow = $1`),

		begin: `BEGIN`,
		lock: in(`SELECT epoch, last_seq, stored, dead, audited, writer, secret, (SELECT version FROM $S.format)
			FROM $S.flows WHERE flow = $1 FOR UPDATE`),
		// The time is the server's, which all members share: a window must not depend on how well their clocks agree. Committed means
		// flushed also where a pooler gives each transaction another session than the one that was set up.
		promise: `SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint,
			CASE WHEN current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN set_config('synchronous_commit', 'on', true) END`,
		byID: in(`SELECT e.* FROM unnest($2::bytea[]) AS u (id) CROSS JOIN LATERAL (
			(SELECT $JOB FROM $S.jobs WHERE $BY_ID) UNION ALL (SELECT $SETTLED FROM $S.settled WHERE $BY_ID)) AS e`),
		bySeq: in(`SELECT e.* FROM unnest($2::bigint[]) AS u (n) CROSS JOIN LATERAL (
			(SELECT $JOB FROM $S.jobs WHERE $BY_SEQ) UNION ALL (SELECT $SETTLED FROM $S.settled WHERE $BY_SEQ)) AS e`),

		insertJobs: in(`INSERT INTO $S.jobs (flow, seq, status, accepted, attempts, uncounted, payload_bytes, stored_at, since, sum,
				message_id, digest, reason, headers, payload, body_sum)
			SELECT $1::integer, * FROM unnest($2::bigint[], $3::smallint[], $4::boolean[], $5::bigint[], $6::bigint[], $7::integer[], $8::bigint[],
				$9::bigint[], $10::bigint[], $11::bytea[], $12::bytea[], $13::bytea[], $14::bytea[], $15::bytea[], $16::bigint[])`),
		updateJobs: in(`UPDATE $S.jobs AS j SET status = u.status, accepted = u.accepted, attempts = u.attempts, uncounted = u.uncounted,
				since = u.since, sum = u.sum, reason = u.reason
			FROM unnest($2::bigint[], $3::smallint[], $4::boolean[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bytea[])
				AS u (n, status, accepted, attempts, uncounted, since, sum, reason)
			CROSS JOIN LATERAL (SELECT ctid FROM $S.jobs WHERE $BY_SEQ) AS at
			WHERE j.ctid = at.ctid`),
		deleteJobs: in(`DELETE FROM $S.jobs WHERE ctid = ANY(ARRAY(
			SELECT at.ctid FROM unnest($2::bigint[]) AS u (n)
			CROSS JOIN LATERAL (SELECT ctid FROM $S.jobs WHERE $BY_SEQ) AS at))`),

		insertSettled: in(`INSERT INTO $S.settled (flow, seq, status, accepted, attempts, uncounted, stored_at, since, sum, message_id, digest)
			SELECT $1::integer, * FROM unnest($2::bigint[], $3::smallint[], $4::boolean[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
				$9::bigint[], $10::bytea[], $11::bytea[])`),
		updateSettled: in(`UPDATE $S.settled AS s SET accepted = u.accepted, since = u.since, sum = u.sum
			FROM unnest($2::bigint[], $3::boolean[], $4::bigint[], $5::bigint[]) AS u (n, accepted, since, sum)
			CROSS JOIN LATERAL (SELECT ctid FROM $S.settled WHERE $BY_SEQ) AS at
			WHERE s.ctid = at.ctid`),
		deleteSettled: in(`DELETE FROM $S.settled WHERE ctid = ANY(ARRAY(
			SELECT ctid FROM $S.settled WHERE flow = $1 AND since IS NOT NULL AND since <= $2 ORDER BY flow, since, seq LIMIT $3))`),

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

		finish: in(`UPDATE $S.flows SET last_seq = $2, stored = $3, dead = $4, audited = $5 WHERE flow = $1`),
		own:    in(`UPDATE $S.flows SET epoch = $2, writer = $3, owner = $4 WHERE flow = $1`),
		rows:   in(`SELECT $JOB FROM $S.jobs WHERE flow = $1 ORDER BY flow, seq`),

		readJobs: in(`SELECT j.* FROM unnest($2::bigint[]) AS u (n) CROSS JOIN LATERAL (
			SELECT seq, message_id, headers, payload, body_sum FROM $S.jobs WHERE $BY_SEQ) AS j`),
		deadLetters: in(`SELECT $JOB FROM $S.jobs WHERE flow = $1 AND seq > $2 AND status = 2 ORDER BY flow, seq LIMIT $3`),
		orphans: in(`(SELECT $JOB FROM $S.jobs WHERE flow = $1 AND seq > $2 AND NOT accepted AND stored_at < $3 ORDER BY flow, seq LIMIT $4)
			UNION ALL
			(SELECT $SETTLED FROM $S.settled WHERE flow = $1 AND seq > $2 AND NOT accepted AND stored_at < $3 ORDER BY flow, seq LIMIT $4)`),

		fenceAll:    in(`UPDATE $S.flows SET epoch = epoch + 1, writer = '' WHERE uid = $1 RETURNING flow`),
		dropJobs:    in(`DELETE FROM $S.jobs WHERE ctid = ANY(ARRAY(SELECT ctid FROM $S.jobs WHERE flow = $1 ORDER BY flow, seq LIMIT $2))`),
		dropSettled: in(`DELETE FROM $S.settled WHERE ctid = ANY(ARRAY(SELECT ctid FROM $S.settled WHERE flow = $1 ORDER BY flow, seq LIMIT $2))`),
		dropWorkers: in(`DELETE FROM $S.workers WHERE flow = $1`),
		dropAudit:   in(`DELETE FROM $S.audit WHERE flow = $1`),
		dropFlow:    in(`DELETE FROM $S.flows WHERE flow = $1`),
	}
}
