package main

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/workpulling/workpulling/examples/tutorials/bed"
	"github.com/workpulling/workpulling/runtime/queue/postgres/postgrestest"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

func TestMain(m *testing.M) { bed.Main(m, main) }

// ledger is the database of the tutorial.
type ledger struct {
	t    *testing.T
	url  string
	conn *pgx.Conn
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	server := postgrestest.Start(t)
	l := &ledger{t: t, url: server.URL(server.Database(t))}
	conn, err := pgx.Connect(t.Context(), l.url)
	if err != nil {
		t.Fatal(err)
	}
	l.conn = conn
	t.Cleanup(func() { conn.Close(t.Context()) })
	if _, err := conn.Exec(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	return l
}

// done are the MessageIDs that were paid.
func (l *ledger) done() map[string]bool {
	l.t.Helper()
	rows, err := l.conn.Query(l.t.Context(), `SELECT message_id FROM done`)
	if err != nil {
		l.t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		l.t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, id := range list {
		ids[id] = true
	}
	return ids
}

func (l *ledger) balance() (sum int64) {
	l.t.Helper()
	if err := l.conn.QueryRow(l.t.Context(), `SELECT coalesce(sum(balance), 0)::bigint FROM accounts`).Scan(&sum); err != nil {
		l.t.Fatal(err)
	}
	return sum
}

// one is a payment of 1, so that the balance is the number of effects.
func one(n int) string { return fmt.Sprintf(`{"account":"account-%d","amount":1}`, n%3) }

// Lost answers, a job that comes to another worker, a worker that is killed: each effect happens once.
func TestEachEffectHappensOnce(t *testing.T) {
	l, flow := newLedger(t), bed.Start(t)
	unlucky, mortal := bed.Serve(t, "-database", l.url), bed.Serve(t, "-database", l.url)
	ids := flow.Submit(false, bed.Payloads(100, one))
	unlucky.Lossy.CutAt(5, true) // committed, and the answer is lost: the job comes again
	flow.Work("unlucky", unlucky.LossyPort())
	flow.Work("mortal", mortal.Port())
	for _, mark := range []int{20, 50} {
		transporttest.Eventually(t, "some jobs are done", func() bool { return len(l.done()) >= mark })
		mortal.Kill()
		mortal.Restart()
	}
	flow.Await("confirmed", ids)
	done := l.done()
	for _, id := range ids {
		if !done[id] {
			t.Errorf("%s is confirmed, and was not paid", id)
		}
	}
	if len(done) != len(ids) || l.balance() != int64(len(ids)) {
		t.Errorf("%d jobs, %d of them done, %d effects", len(ids), len(done), l.balance())
	}
}

// The mistake: what one process remembers is no help when the job comes to another.
func TestMemoryOfOneProcessIsNotEnough(t *testing.T) {
	l, flow := newLedger(t), bed.Start(t)
	for _, name := range []string{"one", "other"} {
		app := bed.Serve(t, "-database", l.url, "-remember-in-memory")
		app.Lossy.CutAt(1, true) // whoever is first: its answer is lost, and the job comes to the other
		flow.Work(name, app.LossyPort())
	}
	flow.Await("confirmed", flow.Submit(false, bed.Payloads(1, one)))
	if l.balance() != 2 {
		t.Errorf("paid %d times: the mistake does no harm", l.balance())
	}
}
