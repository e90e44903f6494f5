// Package postgres is the WorkQueue on a PostgreSQL database (15 or later) that several processes share: "stored" means committed and
// flushed by the server.
//
// Schema, transactions and the reasons: docs/design/postgres-queue.md.
//
// Invariants:
//   - Every write is one transaction that locks the flow's row first, so epoch, cursor and rows are checked and changed in one
//     step, whoever else is connected (G-121, G-123). Load holds the same lock from its first row to the new epoch.
//   - What the process remembers is no authority: a transaction that rests on it says so to the server, which ends it unless the
//     flow's row still has the turn, the epoch and the mark that memory speaks of. Every transaction raises the turn.
//   - An answer without an error followed the server's word that the commit is flushed: a session never runs with less than
//     synchronous_commit = on, and a server with fsync off is refused.
//   - The epoch counts together with the writer's random mark. A database that was restored from a backup may issue a number
//     again, but the writer of before is fenced all the same.
//   - A commit whose answer was lost is ambiguous and safe to repeat; every call ends at its context, whatever the server does
//     (B-057). A client that vanished gives up its lock after a few seconds, by settings of its session.
//   - The tombstone of an id is written with its job, and counts once the job has no row; both go and come in one transaction.
//   - Every row carries a checksum that covers its key. What does not decode, or contradicts another row, is queue.ErrConflict.
//   - Job-path statements reach rows by an index alone; none reads more rows than it was asked for.
//   - No error and no log shows the connection string or the password. No superuser is needed.
package postgres
