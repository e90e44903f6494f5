package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/postgres"
	"github.com/workpulling/workpulling/runtime/queue/postgres/postgrestest"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

func optionsAt(address, database string) postgres.Options {
	return postgres.Options{ConnString: postgrestest.URLAt(address, database), FlowUID: "flow", DeduplicationWindow: time.Hour}
}

func load(t testing.TB, q queue.WorkQueue) (rows []queue.Row, state queue.State, epoch queue.Epoch) {
	t.Helper()
	state, epoch, err := q.Load(t.Context(), "owner", func(r queue.Row) error {
		rows = append(rows, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows, state, epoch
}

func requests(ids ...string) (stores []queue.StoreRequest) {
	for _, id := range ids {
		stores = append(stores, queue.StoreRequest{Job: protocol.Job{
			MessageID: id, Payload: []byte("payload of " + id), Headers: map[string]string{"ce-id": id},
		}, Digest: queue.Digest{1}})
	}
	return stores
}

func store(t testing.TB, q queue.WorkQueue, epoch queue.Epoch, cursor int64, ids ...string) {
	t.Helper()
	if _, err := q.Apply(t.Context(), epoch, queue.Batch{Cursor: cursor, Stores: requests(ids...)}); err != nil {
		t.Fatal(err)
	}
}

// retriable fails the test for an error that the contract calls terminal, or the caller's fault.
func retriable(t testing.TB, what string, err error) {
	t.Helper()
	for _, terminal := range []error{queue.ErrConflict, queue.ErrFenced, queue.ErrNotFound, queue.ErrUnsupportedFormat, protocol.ErrInvalid} {
		if err == nil || errors.Is(err, terminal) {
			t.Errorf("%s: error %v, want a retriable one", what, err)
		}
	}
}

// proxied is a proxy before a server. It does not count what pgx sends by a connection of its own, whenever it gets to it, after one that
// broke: the request to cancel what ran there.
func proxied(t *testing.T, server *postgrestest.Server) *transporttest.Proxy {
	proxy := transporttest.NewProxy(t, server.Address())
	proxy.Overlook(func(request []byte) bool {
		return len(request) > 4 && new(pgproto3.CancelRequest).Decode(request[4:]) == nil
	})
	return proxy
}

func TestNoRequestToCancelIsCut(t *testing.T) {
	proxy := proxied(t, postgrestest.Shared(t))
	proxy.CutAt(1, false)
	request, err := (&pgproto3.CancelRequest{ProcessID: 1, SecretKey: []byte("none")}).Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", proxy.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); err != nil || len(answer) > 0 {
		t.Errorf("answered %q, error %v", answer, err)
	}
	if !proxy.Pending() {
		t.Error("the cut met it")
	}
}

// A connection may break at any message, before the server hears of it or before the client hears the answer, that of COMMIT
// included. The batch then happened or it did not, whole; repeating it gives the answers of the first time (B-022, G-126).
func TestCutAtEveryMessage(t *testing.T) {
	server := postgrestest.Shared(t)
	proxy := proxied(t, server)
	q := opened(t, optionsAt(proxy.Address(), server.Database(t)))
	_, _, epoch := load(t, q)
	cursor, cuts, happened := int64(0), 0, 0
	store(t, q, epoch, cursor, "first") // from here on the statements are prepared
	cursor++
	first := refTo(1, "first")
	apply(t, q, epoch, queue.Batch{Accepts: []queue.JobRef{first}, Confirms: []queue.JobRef{first}})
	for way := range 4 {
		forward, remembered := way%2 == 0, way < 2
		for n := 1; n <= 4; n++ {
			id := fmt.Sprintf("job-%d-%d", n, way)
			batch := queue.Batch{
				Cursor: cursor, Stores: requests(id, id+"-gone"), Accepts: []queue.JobRef{{MessageID: id, StoreSeq: cursor + 1}},
				Confirms: []queue.JobRef{{MessageID: id + "-gone", StoreSeq: cursor + 2}},
			}
			if !remembered {
				batch.Confirms = append(batch.Confirms, first) // it has to be looked up, in a round trip of its own
			}
			proxy.CutAt(n, forward)
			_, err := q.Apply(t.Context(), epoch, batch)
			if cut := !proxy.Pending(); !cut {
				cursor += 2
				continue // fewer messages than that
			}
			cuts++
			retriable(t, fmt.Sprintf("cut at message %d, forwarded %v", n, forward), err)
			before, found, err := q.Lookup(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			_, gone, err := q.Lookup(t.Context(), id+"-gone")
			if err != nil || found != gone {
				t.Errorf("cut at message %d, forwarded %v: half of the batch is there, error %v", n, forward, err)
			}
			if found {
				happened++
			}
			result, err := q.Apply(t.Context(), epoch, batch)
			if err != nil || result.Stores[0].StoreSeq != cursor+1 || result.Stores[1].StoreSeq != cursor+2 || result.Cursor != cursor+2 {
				t.Fatalf("repeating what was cut at message %d, forwarded %v: %+v, error %v", n, forward, result, err)
			}
			if after, _, err := q.Lookup(t.Context(), id); err != nil || found && after != before {
				t.Errorf("the repeat changed %+v to %+v, error %v", before, after, err)
			}
			cursor += 2
		}
	}
	t.Logf("%d cuts, of which %d had happened", cuts, happened)
	if cuts < 6 || happened < 2 {
		t.Error("the cuts missed the transaction: this test tests nothing")
	}
}

// The same for Load: ownership changed or it did not, and the next load finds out (B-042).
func TestLoadCutAtEveryMessage(t *testing.T) {
	server := postgrestest.Shared(t)
	proxy := proxied(t, server)
	database := server.Database(t)
	writer := opened(t, optionsAt(server.Address(), database))
	q := opened(t, optionsAt(proxy.Address(), database))
	cursor := int64(0)
	for _, forward := range []bool{false, true} {
		for n := 1; n <= 5; n++ {
			_, _, epoch := load(t, writer)
			proxy.CutAt(n, forward)
			_, _, err := q.Load(t.Context(), "cut", func(queue.Row) error { return nil })
			if !proxy.Pending() {
				retriable(t, "load", err)
			}
			owner, failure := writer.Owner(t.Context())
			if failure != nil {
				t.Fatal(failure)
			}
			_, write := writer.Apply(t.Context(), epoch, queue.Batch{Cursor: cursor, Stores: requests(fmt.Sprintf("%d-%v", n, forward))})
			switch taken := owner.Epoch > epoch; {
			case taken && !errors.Is(write, queue.ErrFenced), !taken && write != nil, !taken && err == nil:
				t.Errorf("message %d, forwarded %v: owner %+v, load error %v, the writer before gets %v", n, forward, owner, err, write)
			case !taken:
				cursor++
			}
		}
	}
}

// A server that stops answering holds nobody beyond his deadline, and all goes on when it answers again (B-057, G-X08).
func TestHangingServer(t *testing.T) {
	server := postgrestest.Start(t)
	q := opened(t, optionsAt(server.Address(), server.Database(t)))
	_, _, epoch := load(t, q)
	store(t, q, epoch, 0, "a", "b")
	if _, err := q.Apply(t.Context(), epoch, queue.Batch{DeadLetters: []queue.DeadLetterRequest{{JobRef: queue.JobRef{MessageID: "b", StoreSeq: 2}}}}); err != nil {
		t.Fatal(err)
	}
	ref := queue.JobRef{MessageID: "b", StoreSeq: 2}
	server.Pause(t)
	for name, call := range map[string]func(context.Context) error{
		"apply": func(ctx context.Context) error {
			_, err := q.Apply(ctx, epoch, queue.Batch{Cursor: 2, Stores: requests("c")})
			return err
		},
		"load": func(ctx context.Context) error {
			_, _, err := q.Load(ctx, "other", func(queue.Row) error { return nil })
			return err
		},
		"read jobs":    func(ctx context.Context) error { _, err := q.ReadJobs(ctx, []int64{1}); return err },
		"lookup":       func(ctx context.Context) error { _, _, err := q.Lookup(ctx, "a"); return err },
		"dead letters": func(ctx context.Context) error { _, err := q.ListDeadLetters(ctx, 0, 10); return err },
		"redrive":      func(ctx context.Context) error { _, err := q.Redrive(ctx, epoch, ref, "test"); return err },
		"drop":         func(ctx context.Context) error { return q.Drop(ctx, epoch, ref, "test") },
		"compact":      func(ctx context.Context) error { _, err := q.Compact(ctx, epoch, 10); return err },
		"owner":        func(ctx context.Context) error { _, err := q.Owner(ctx); return err },
		"orphans":      func(ctx context.Context) error { _, err := q.ListOrphans(ctx, time.Now(), 0, 10); return err },
		"audit":        func(ctx context.Context) error { _, err := q.ListAudit(ctx, 0, 10); return err },
		"new": func(ctx context.Context) error {
			_, err := postgres.New(ctx, optionsAt(server.Address(), "test1"))
			return err
		},
		"remove": func(ctx context.Context) error {
			_, err := postgres.Remove(ctx, optionsAt(server.Address(), "test1"))
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		started := time.Now()
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: error %v, want that of the context", name, err)
		}
		if took := time.Since(started); took > 5*time.Second { // the deadline, and a busy machine
			t.Errorf("%s took %v", name, took)
		}
		cancel()
	}
	server.Resume(t)
	// What was asked for may have happened; repeating it says so.
	var result queue.Result
	eventually(t, func() (err error) {
		result, err = q.Apply(t.Context(), epoch, queue.Batch{Cursor: 2, Stores: requests("c")})
		if errors.Is(err, queue.ErrFenced) { // the load happened
			_, _, epoch = load(t, q)
		}
		return err
	})
	if result.Stores[0].StoreSeq != 3 {
		t.Errorf("after the hang: %+v", result)
	}
}

func eventually(t testing.TB, try func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("after a minute still: %v", err)
}

// A writer that vanishes in the middle of a transaction, without closing its connection, holds up its successor for a bounded time.
func TestVanishedWriterLosesItsLock(t *testing.T) {
	server := postgrestest.Shared(t)
	proxy := proxied(t, server)
	database := server.Database(t)
	vanished, successor := opened(t, optionsAt(proxy.Address(), database)), opened(t, optionsAt(server.Address(), database))
	_, _, epoch := load(t, vanished)
	store(t, vanished, epoch, 0, "a")
	proxy.FreezeAt(2) // the transaction has locked and read, and never hears of its writes
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	failed := make(chan error)
	go func() {
		_, err := vanished.Compact(ctx, epoch, 10) // which does not rest on what is remembered
		failed <- err
	}()
	eventually(t, func() error {
		if !proxy.Frozen() {
			return errors.New("the transaction has not come that far")
		}
		return server.Exec(t.Context(), database, `DO $$ BEGIN
			IF NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction') THEN RAISE 'nobody has the lock'; END IF; END $$`)
	})
	started := time.Now()
	rows, state, _ := load(t, successor)
	t.Logf("taken over after %v", time.Since(started))
	if len(rows) != 1 || state.Cursor != 1 || time.Since(started) > 30*time.Second {
		t.Errorf("rows %v, cursor %d after %v", rows, state.Cursor, time.Since(started))
	}
	cancel()
	retriable(t, "the vanished writer", <-failed)
	proxy.Thaw()
	eventually(t, func() error {
		_, err := vanished.Apply(t.Context(), epoch, queue.Batch{Cursor: 1, Stores: requests("b")})
		if errors.Is(err, queue.ErrFenced) {
			return nil
		}
		return fmt.Errorf("not fenced but %w", err)
	})
}

// Connections to a host that is gone hold up the pool for seconds, also those that were only being made.
func TestLostHost(t *testing.T) {
	server := postgrestest.Shared(t)
	proxy := proxied(t, server)
	options := optionsAt(proxy.Address(), server.Database(t))
	if bound := postgres.ConnectTimeout(opened(t, options)); bound <= 0 || bound > 10*time.Second {
		t.Errorf("a connection may take %v to be made", bound)
	}
	options.ConnString += "&connect_timeout=2"
	q := opened(t, options)
	proxy.Cut()
	for range 4 { // the size of the pool
		proxy.FreezeAt(5) // the setting up of a session
		eventually(t, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, _, _ = q.Lookup(ctx, "a")
			if !proxy.Frozen() {
				return errors.New("no new connection yet")
			}
			return nil
		})
		proxy.Lose()
	}
	eventually(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, _, err := q.Lookup(ctx, "a")
		return err
	})
}

// A server that crashes loses nothing that it acknowledged, and a queue goes on with it when it is back.
func TestServerCrash(t *testing.T) {
	server := postgrestest.Start(t)
	q := opened(t, optionsAt(server.Address(), server.Database(t)))
	_, _, epoch := load(t, q)
	cursor := int64(0)
	for round := range 3 {
		end := make(chan struct{})
		go func() {
			defer close(end)
			<-time.After(time.Duration(50+50*round) * time.Millisecond)
			if err := server.Kill(); err != nil {
				t.Error(err)
			}
		}()
		for {
			result, err := q.Apply(t.Context(), epoch, queue.Batch{Cursor: cursor, Stores: requests(fmt.Sprintf("job-%d", cursor+1))})
			if err != nil {
				retriable(t, "a store beside a crash", err)
				break
			}
			cursor = result.Cursor
		}
		<-end
		_, err := q.Apply(t.Context(), epoch, queue.Batch{})
		retriable(t, "without a server", err)
		if err := server.Run(); err != nil {
			t.Fatal(err)
		}
		// The last store may have happened; repeating it gives its sequence.
		eventually(t, func() error {
			result, err := q.Apply(t.Context(), epoch, queue.Batch{Cursor: cursor, Stores: requests(fmt.Sprintf("job-%d", cursor+1))})
			if err == nil {
				cursor = result.Cursor
			}
			return err
		})
	}
	rows, state, _ := load(t, q)
	t.Logf("%d jobs over 3 crashes", cursor)
	if int64(len(rows)) != cursor || state.Cursor != cursor {
		t.Errorf("%d rows, cursor %d, acknowledged %d", len(rows), state.Cursor, cursor)
	}
}

// No error shows the password, and none the connection string.
func TestPasswordIsNeverShown(t *testing.T) {
	server := postgrestest.Shared(t)
	database := server.Database(t)
	const secret = "s3cret-of-somebody"
	for name, dsn := range map[string]string{
		"a wrong password":      strings.ReplaceAll(server.URL(database), postgrestest.Password, secret),
		"another database":      server.URL("nowhere"),
		"nobody listens":        postgrestest.URLAt("127.0.0.1:1", database),
		"an unknown host":       "postgres://u:" + secret + "@host.invalid/db?connect_timeout=1",
		"a malformed URL":       "postgres://u:" + secret + "@h:port/db",
		"a URL with a space":    "postgres://u:" + secret + " x@h/db",
		"a malformed list":      "host=h password=" + secret + " port=x",
		"a list that never was": secret,
		"an unknown setting":    server.URL(database) + "&no_such_setting=1",
		"an unknown file":       "host=h password=" + secret + " sslmode=verify-full sslrootcert=/nowhere",
		"no string":             "",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, err := postgres.New(ctx, postgres.Options{ConnString: dsn, FlowUID: "flow"})
		cancel()
		switch {
		case err == nil:
			t.Errorf("%s: no error", name)
		case strings.Contains(err.Error(), secret), strings.Contains(err.Error(), postgrestest.Password), dsn != "" && strings.Contains(err.Error(), dsn):
			t.Errorf("%s: the error shows it: %v", name, err)
		}
		t.Logf("%s: %v", name, err)
	}
}

// Codes of the server that say that the data contradict what they must be end the incarnation; all others are worth another try.
func TestServerErrors(t *testing.T) {
	for code, conflict := range map[string]bool{
		"40001": false, "40P01": false, "53100": false, "53300": false, "55P03": false, "57P01": false, "57P03": false, "57014": false,
		"25006": false, "25P03": false, "08006": false, "58030": false, "42501": false, "28P01": false, "42P05": false, "0A000": false,
		"23505": true, "22021": true, "42P01": true, "42703": true, "3F000": true, "XX001": true, "XX002": true,
	} {
		if postgres.Contradicts(code) != conflict {
			t.Errorf("code %s: conflict %v, want %v", code, !conflict, conflict)
		}
	}
}

// A writer that opens its store anew goes on where it was. In another database it is nobody, even if that is at the same epoch.
func TestAWriterContinuesInItsOwnDataOnly(t *testing.T) {
	server := postgrestest.Shared(t)
	own, foreign := server.Database(t), server.Database(t)
	former := opened(t, optionsAt(server.Address(), own))
	_, _, epoch := load(t, former)
	store(t, former, epoch, 0, "a")
	other := opened(t, optionsAt(server.Address(), foreign))
	if _, _, same := load(t, other); same != epoch {
		t.Fatalf("epochs %d and %d, want the same", epoch, same)
	}
	if err := former.Close(); err != nil {
		t.Fatal(err)
	}

	again := opened(t, optionsAt(server.Address(), own))
	again.Continue(former)
	store(t, again, epoch, 1, "b")
	strayed := opened(t, optionsAt(server.Address(), foreign))
	strayed.Continue(former)
	if _, err := strayed.Apply(t.Context(), epoch, queue.Batch{Stores: requests("c")}); !errors.Is(err, queue.ErrFenced) {
		t.Errorf("a store in another database: %v, want it fenced", err)
	}
	store(t, other, epoch, 0, "d")
}

// A commit that was given up while it waited for a synchronous standby is there and not replicated. No repeat of it, whatever it
// finds, is answered before it is: the standby may take over without it.
func TestNothingIsAnsweredBeforeItIsReplicated(t *testing.T) {
	server := postgrestest.Start(t)
	database := server.Database(t)
	q := opened(t, optionsAt(server.Address(), database))
	_, _, epoch := load(t, q)
	store(t, q, epoch, 0, "a")
	impatient := func(batch queue.Batch) error {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := q.Apply(ctx, epoch, batch)
		return err
	}
	cursor := int64(1)
	next := func() queue.Batch {
		return queue.Batch{Cursor: cursor, Stores: requests(fmt.Sprintf("job-%d", cursor+1))}
	}
	waitForStandby(t, server, "nobody")
	eventually(t, func() error {
		err := impatient(next())
		if errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		cursor++
		return fmt.Errorf("the server does not wait yet: %w", err)
	})
	eventually(t, func() error { // the server hears that nobody waits any more
		_, found, err := q.Lookup(t.Context(), next().Stores[0].Job.MessageID)
		if err == nil && !found {
			err = errors.New("not there")
		}
		return err
	})
	ref := queue.JobRef{MessageID: next().Stores[0].Job.MessageID, StoreSeq: cursor + 1}
	for what, batch := range map[string]queue.Batch{"store": next(), "accept": {Accepts: []queue.JobRef{ref}}, "confirm": {Confirms: []queue.JobRef{ref}}} {
		for range 2 {
			if err := impatient(batch); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s, without a standby: error %v", what, err)
			}
		}
	}
	t.Run("and a wait that somebody ends is none", func(t *testing.T) {
		answer := make(chan error, 1)
		go func() {
			_, err := q.Apply(t.Context(), epoch, queue.Batch{Cursor: cursor + 1, Stores: requests("ended")})
			answer <- err
		}()
		eventually(t, func() error {
			return server.Exec(t.Context(), database, `DO $$ BEGIN
				PERFORM pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep';
				IF NOT FOUND THEN RAISE 'nobody waits'; END IF; END $$`)
		})
		retriable(t, "a store whose wait was ended", <-answer)
	})
	waitForStandby(t, server, "")
	eventually(t, func() error { return impatient(next()) })
}

// waitForStandby makes the server wait for a standby of a name with each commit.
func waitForStandby(t *testing.T, server *postgrestest.Server, name string) {
	t.Helper()
	for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + name + "'", "SELECT pg_reload_conf()"} {
		if err := server.Exec(t.Context(), "postgres", sql); err != nil {
			t.Fatal(err)
		}
	}
}
