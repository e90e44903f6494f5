package queuetest

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

var loads = []scenario{
	{"every unsettled row comes once, ascending, accepted or not (G-X00, B-024)", func(f *fixture) {
		refs := f.store(numbered("l", 300)...)
		var want []queue.Row
		var confirms []queue.JobRef
		for i, r := range refs {
			if i%3 == 0 {
				confirms = append(confirms, r)
				continue
			}
			want = append(want, queue.Row{
				JobRef: r, PayloadBytes: len(jobOf(r.MessageID).Payload), Accepted: i%2 == 0, StoredAt: f.clock.Now(),
			})
			if i%2 == 0 {
				f.accept(r)
			}
		}
		f.confirm(confirms...)
		f.equal("rows", f.reopen(), want)
		f.equal("rows again", f.load(), want)
	}},
	{"the visitor may read", func(f *fixture) {
		f.store("a", "b")
		state, epoch, err := f.q.Load(f.Context(), "owner", func(r queue.Row) error {
			f.equal("job", f.read(r.StoreSeq)[0], jobOf(r.MessageID))
			f.equal("status", f.status(r.MessageID), queue.StatusStored)
			return nil
		})
		if err != nil || epoch <= f.epoch || state.Cursor != 2 {
			f.Errorf("state %+v, epoch %d, error %v", state, epoch, err)
		}
	}},
	{"a load sees no half of a writer's work, and the writer none of its own after it", func(f *fixture) {
		// Writers of the old epoch store pairs beside loads; a load must see both of a pair or none, and its cursor must match.
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range 50 {
				now, err := f.q.Apply(f.Context(), f.epoch, queue.Batch{})
				if err != nil {
					return // fenced by a load: this is the end that the contract wants
				}
				pair := requestsOf(fmt.Sprintf("p%d-left", i), fmt.Sprintf("p%d-right", i))
				if _, err := f.q.Apply(f.Context(), f.epoch, queue.Batch{Cursor: now.Cursor, Stores: pair}); err != nil {
					return
				}
			}
		})
		old := f.epoch
		rows, state, epoch, err := loadAll(f.Context(), f.q)
		wg.Wait()
		if err != nil {
			f.Fatal(err)
		}
		f.equal("rows of the load", int64(len(rows)), state.Cursor)
		f.equal("rows are in pairs", len(rows)%2, 0)
		_, err = f.q.Apply(f.Context(), old, queue.Batch{})
		f.fails("the old writer", err, queue.ErrFenced)
		f.epoch, f.cursor = epoch, state.Cursor
		f.equal("rows now", len(f.load()), len(rows))
	}},
	{"an operation that must wait ends at its deadline, retriable, and nothing happens (B-057)", func(f *fixture) {
		refs := f.store("a", "b")
		f.bury("poison", refs[1])
		before := f.snapshot("a", "b", "d")
		inside, release := make(chan struct{}), make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _, err := f.q.Load(f.Context(), "slow", func(queue.Row) error {
				close(inside)
				<-release
				return errVisit
			})
			f.fails("the slow load", err, errVisit)
		})
		<-inside
		for name, call := range map[string]func(context.Context) error{
			"apply": func(ctx context.Context) error {
				_, err := f.q.Apply(ctx, f.epoch, queue.Batch{Cursor: 2, Stores: requestsOf("d")})
				return err
			},
			"load":    func(ctx context.Context) error { _, _, _, err := loadAll(ctx, f.q); return err },
			"compact": func(ctx context.Context) error { _, err := f.q.Compact(ctx, f.epoch, 10); return err },
			"drop":    func(ctx context.Context) error { return f.q.Drop(ctx, f.epoch, refs[1], "test") },
		} {
			ctx, cancel := context.WithTimeout(f.Context(), 20*time.Millisecond)
			f.fails(name, call(ctx), context.DeadlineExceeded)
			cancel()
		}
		close(release)
		wg.Wait()
		f.equal("state", f.snapshot("a", "b", "d"), before)
		f.store("d")
	}},
	{"a commit that hangs ends at the caller's deadline and may be repeated (B-057, G-X08)", func(f *fixture) {
		if f.place.Hang == nil {
			return // the storage of this back-end cannot hang
		}
		f.store("a")
		release := f.place.Hang(f.q)
		ctx, cancel := context.WithTimeout(f.Context(), 20*time.Millisecond)
		defer cancel()
		request := requestOf("b")
		_, err := f.q.Apply(ctx, f.epoch, queue.Batch{Cursor: 1, Stores: []queue.StoreRequest{request}})
		f.fails("hanging", err, context.DeadlineExceeded)
		request.Job.Payload[0] ^= 0xff // the caller may use its memory again
		release()
		result, err := f.q.Apply(f.Context(), f.epoch, queue.Batch{Cursor: 1, Stores: requestsOf("b")})
		if err != nil || result.Stores[0].StoreSeq != 2 {
			f.Fatalf("repeating: %+v, error %v", result, err)
		}
		f.cursor = 2
		f.equal("bytes", f.read(2)[0], jobOf("b"))
		f.equal("rows", sequences(f.reopen()), []int64{1, 2})
	}},
	{"state that contradicts itself is a conflict and ownership stays (B-054, G-122)", func(f *fixture) {
		if f.place.Damage == nil {
			return // the storage of this back-end cannot be damaged
		}
		for _, damage := range damages {
			f.t.Run(string(damage), func(t *testing.T) { testDamage(newFixture(t, t, f.backend), damage) })
		}
	}},
	{"a large backlog is streamed in bounded memory (B-058)", testLargeLoad},
}

func testDamage(f *fixture, damage Damage) {
	f.store(numbered("d", 3)...)
	if err := f.q.Close(); err != nil {
		f.Fatal(err)
	}
	if !f.place.Damage(flow, damage) {
		f.Logf("this storage rules out %s by its keys", damage)
		return
	}
	f.open()
	for range 2 {
		_, _, epoch, err := loadAll(f.Context(), f.q)
		f.fails("load", err, queue.ErrConflict)
		f.equal("epoch", epoch, queue.Epoch(0))
	}
	if _, err := f.q.Apply(f.Context(), f.epoch, queue.Batch{}); err != nil {
		f.Errorf("the writer before the failed load: %v", err)
	}
}

// rowsWanted is the size of the streaming test.
func rowsWanted(f *fixture) int {
	text := os.Getenv("QUEUETEST_ROWS")
	if text == "" {
		return 20_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		f.Fatalf("QUEUETEST_ROWS=%q: want a positive number", text)
	}
	return n
}

func testLargeLoad(f *fixture) {
	const batch, payload = 1000, 1024
	n := rowsWanted(f)
	for start := 0; start < n; start += batch {
		requests := make([]queue.StoreRequest, min(batch, n-start))
		for i := range requests {
			id := fmt.Sprintf("large-%d", start+i)
			requests[i] = queue.StoreRequest{Job: protocol.Job{MessageID: id, Payload: make([]byte, payload)}, Digest: digestOf(id)}
		}
		f.apply(queue.Batch{Stores: requests})
	}
	if !f.backend.Volatile {
		if err := f.q.Close(); err != nil {
			f.Fatal(err)
		}
		f.open()
	}
	before, highest, last, seen := heap(), uint64(0), int64(0), 0
	started := time.Now()
	var first time.Duration
	_, epoch, err := f.q.Load(f.Context(), "owner", func(r queue.Row) error {
		if seen++; seen == 1 {
			first = time.Since(started)
		}
		if r.StoreSeq != last+1 {
			return fmt.Errorf("sequence %d after %d", r.StoreSeq, last)
		}
		if last = r.StoreSeq; seen%(n/8+1) == 0 {
			highest = max(highest, heap())
		}
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
	f.epoch = epoch
	f.equal("rows", seen, n)
	grown := int64(highest) - int64(before)
	f.Logf("%d rows in %v, the first after %v; the heap grew by %d KiB", n, time.Since(started), first, grown>>10)
	const bound = 8 << 20
	if !f.backend.Volatile && grown > bound {
		f.Errorf("the heap grew by %d bytes while %d rows of %d bytes were streamed; the bound is %d", grown, n, payload, bound)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

var isolations = []scenario{
	{"two flows do not see each other (B-059)", func(f *fixture) {
		refs := f.store("shared", "mine")
		f.bury("poison", refs[1])
		q, err := f.place.Open("flow-b")
		if err != nil {
			f.Fatal(err)
		}
		defer q.Close()
		rows, state, epoch, err := loadAll(f.Context(), q)
		if err != nil {
			f.Fatal(err)
		}
		f.equal("rows of the other", len(rows), 0)
		f.equal("cursor of the other", state.Cursor, int64(0))
		f.equal("dead letters of the other", state.DeadLetters, int64(0))
		result, err := q.Apply(f.Context(), epoch, queue.Batch{Stores: requestsOf("shared")})
		if err != nil {
			f.Fatal(err)
		}
		f.equal("verdict of the other", result.Stores[0], queue.StoreResult{StoreSeq: 1, Verdict: protocol.StoredNew})
		if _, ok, err := q.Lookup(f.Context(), "mine"); ok || err != nil {
			f.Errorf("the other finds an id of this flow: %v, error %v", ok, err)
		}
		if _, _, _, err := loadAll(f.Context(), q); err != nil {
			f.Fatal(err)
		}
		f.store("still the writer")
		f.equal("rows", sequences(f.reopen()), []int64{1, 3})
	}},
}
