package queuetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/workpulling/workpulling/runtime/queue"
)

var ownership = []scenario{
	{"an empty queue has cursor 0 and a positive epoch that rises with every load (B-040)", func(f *fixture) {
		if f.epoch < 1 {
			f.Errorf("first epoch %d, want at least 1", f.epoch)
		}
		first := f.epoch
		f.equal("rows", len(f.load()), 0)
		f.equal("rows after a restart", len(f.reopen()), 0)
		if f.epoch < first+2 {
			f.Errorf("epoch %d after two more loads, the first was %d", f.epoch, first)
		}
	}},
	{"epoch 0, an older and a future one are fenced and change nothing (B-041)", func(f *fixture) {
		refs := f.store("a", "b", "c")
		f.bury("poison", refs[1])
		older := f.epoch
		f.load()
		before := f.snapshot("a", "b", "c", "d")
		for _, epoch := range []queue.Epoch{0, older, f.epoch + 1, ^queue.Epoch(0)} {
			for name, err := range f.writeAll(epoch, refs[0], refs[1]) {
				f.fails(fmt.Sprintf("%s with epoch %d of %d", name, epoch, f.epoch), err, queue.ErrFenced)
			}
		}
		f.equal("state", f.snapshot("a", "b", "c", "d"), before)
		f.equal("rows", sequences(f.load()), []int64{1, 3})
	}},
	{"a failed load leaves the earlier writer in place (B-042)", func(f *fixture) {
		f.store("a", "b")
		failure := errors.New("the visitor gave up")
		state, epoch, err := f.q.Load(f.Context(), "other", func(r queue.Row) error {
			if r.StoreSeq == 2 {
				return failure
			}
			return nil
		})
		f.fails("load", err, failure)
		f.equal("epoch of a failed load", epoch, queue.Epoch(0))
		f.equal("state of a failed load", state, queue.State{})
		f.store("c")

		cancelled, cancel := context.WithCancel(f.Context())
		cancel()
		_, _, _, err = loadAll(cancelled, f.q)
		f.fails("load with a cancelled context", err, context.Canceled)
		f.store("d")

		cancelled, cancel = context.WithCancel(f.Context())
		_, _, err = f.q.Load(cancelled, "other", func(queue.Row) error { cancel(); return nil })
		f.fails("load cancelled half way", err, context.Canceled)
		f.store("e")
		f.equal("rows", sequences(f.reopen()), []int64{1, 2, 3, 4, 5})
	}},
	{"a restart fences the writer before it (G-121)", func(f *fixture) {
		f.store("a")
		old := f.epoch
		f.reopen()
		_, err := f.q.Apply(f.Context(), old, queue.Batch{Cursor: 1, Stores: requestsOf("b")})
		f.fails("the old writer", err, queue.ErrFenced)
		f.store("b")
	}},
	{"of many concurrent loads the newest epoch alone writes (G-121)", func(f *fixture) {
		const n = 16
		epochs := make([]queue.Epoch, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				_, _, epoch, err := loadAll(f.Context(), f.q)
				if err != nil {
					f.Errorf("loading: %v", err)
				}
				epochs[i] = epoch
			})
		}
		wg.Wait()
		newest, seen := queue.Epoch(0), map[queue.Epoch]bool{}
		for _, e := range epochs {
			newest = max(newest, e)
			seen[e] = true
		}
		f.equal("different epochs", len(seen), n)
		for _, e := range epochs {
			_, err := f.q.Apply(f.Context(), e, queue.Batch{})
			if want := e != newest; errors.Is(err, queue.ErrFenced) != want {
				f.Errorf("epoch %d of %d: error %v, fenced should be %v", e, newest, err, want)
			}
		}
		f.epoch = newest
	}},
	{"an empty batch tells the cursor and whether the epoch still holds", func(f *fixture) {
		f.store("a", "b")
		f.equal("result", f.apply(queue.Batch{}), queue.Result{Cursor: 2})
	}},
	{"a closed queue answers with an error and closes again", func(f *fixture) {
		refs := f.store("a", "b")
		f.bury("poison", refs[1])
		if err := f.q.Close(); err != nil {
			f.Fatalf("closing: %v", err)
		}
		if err := f.q.Close(); err != nil {
			f.Errorf("closing again: %v", err)
		}
		for name, err := range f.callAll(f.Context(), f.epoch, refs[0], refs[1]) {
			if err == nil {
				f.Errorf("%s on a closed queue succeeded", name)
			}
		}
	}},
	{"a cancelled context ends every operation with its own error, and nothing happens (G-134)", func(f *fixture) {
		refs := f.store("a", "b")
		f.bury("poison", refs[1])
		before := f.snapshot("a", "b", "d")
		cancelled, cancel := context.WithCancel(f.Context())
		cancel()
		for name, err := range f.callAll(cancelled, f.epoch, refs[0], refs[1]) {
			f.fails(name, err, context.Canceled)
		}
		f.equal("state", f.snapshot("a", "b", "d"), before)
		f.equal("rows", sequences(f.load()), []int64{1})
	}},
}

// writeAll calls every operation that needs an epoch: the errors by the operation's name.
func (f *fixture) writeAll(epoch queue.Epoch, stored, dead queue.JobRef) map[string]error {
	return f.writeAllWith(f.Context(), epoch, stored, dead)
}

func (f *fixture) writeAllWith(ctx context.Context, epoch queue.Epoch, stored, dead queue.JobRef) map[string]error {
	apply := func(b queue.Batch) error {
		b.Cursor = f.cursor
		_, err := f.q.Apply(ctx, epoch, b)
		return err
	}
	_, redrive := f.q.Redrive(ctx, epoch, dead, "test")
	_, compact := f.q.Compact(ctx, epoch, 10)
	errs := map[string]error{
		"nothing":     apply(queue.Batch{}),
		"store":       apply(queue.Batch{Stores: requestsOf("d")}),
		"store known": apply(queue.Batch{Stores: requestsOf(stored.MessageID)}),
		"accept":      apply(queue.Batch{Accepts: []queue.JobRef{stored}}),
		"attempt":     apply(queue.Batch{Attempts: []queue.AttemptRecord{{JobRef: stored, Attempts: 1}}}),
		"dead letter": apply(queue.Batch{DeadLetters: []queue.DeadLetterRequest{{JobRef: stored}}}),
		"confirm":     apply(queue.Batch{Confirms: []queue.JobRef{stored}}),
		"redrive":     redrive,
		"drop":        f.q.Drop(ctx, epoch, dead, "test"),
		"compact":     compact,
	}
	if keeper, ok := f.q.(queue.OrphanKeeper); ok {
		errs["accept orphan"] = keeper.AcceptOrphan(ctx, epoch, stored, "test")
	}
	return errs
}

// callAll calls every operation.
func (f *fixture) callAll(ctx context.Context, epoch queue.Epoch, stored, dead queue.JobRef) map[string]error {
	errs := f.writeAllWith(ctx, epoch, stored, dead)
	_, _, _, errs["load"] = loadAll(ctx, f.q)
	_, errs["read jobs"] = f.q.ReadJobs(ctx, []int64{1})
	_, _, errs["lookup"] = f.q.Lookup(ctx, "a")
	_, errs["list dead letters"] = f.q.ListDeadLetters(ctx, 0, 10)
	if keeper, ok := f.q.(queue.OrphanKeeper); ok {
		_, errs["list orphans"] = keeper.ListOrphans(ctx, f.clock.Now(), 0, 10)
	}
	if auditor, ok := f.q.(queue.Auditor); ok {
		_, errs["list audit lines"] = auditor.ListAudit(ctx, 0, 10)
	}
	return errs
}
