package queuetest

import (
	"errors"
	"fmt"
	"math"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// deeds are the four parts of a batch that name a job.
var deeds = map[string]func(queue.JobRef) queue.Batch{
	"accept":  func(r queue.JobRef) queue.Batch { return queue.Batch{Accepts: []queue.JobRef{r}} },
	"confirm": func(r queue.JobRef) queue.Batch { return queue.Batch{Confirms: []queue.JobRef{r}} },
	"attempt": func(r queue.JobRef) queue.Batch {
		return queue.Batch{Attempts: []queue.AttemptRecord{{JobRef: r, Attempts: 1}}}
	},
	"dead letter": func(r queue.JobRef) queue.Batch {
		return queue.Batch{DeadLetters: []queue.DeadLetterRequest{{JobRef: r}}}
	},
}

var settlements = []scenario{
	{"accepting and confirming twice is a no-op (B-047)", func(f *fixture) {
		refs := f.store("a", "b")
		f.accept(refs[0])
		f.clock.Advance(1)
		f.accept(refs[0], refs[0])
		f.confirm(refs[0])
		before := f.snapshot("a", "b")
		f.clock.Advance(1)
		f.confirm(refs[0], refs[0])
		f.accept(refs[0])
		f.equal("state", f.snapshot("a", "b"), before)
		f.equal("status", f.status("a"), queue.StatusConfirmed)
		f.equal("rows", sequences(f.reopen()), []int64{2})
	}},
	{"a pair that was never issued is a conflict (B-047, G-128, G-129)", func(f *fixture) {
		refs := f.store("a", "b", "settled")
		f.confirm(refs[2])
		before := f.snapshot("a", "b", "settled")
		for name, batch := range deeds {
			for _, r := range []queue.JobRef{
				ref("never", 4), ref("never", 0), ref("never", -1), ref("never", math.MaxInt64), ref("", 1), ref("", 4),
				ref("a", 2), ref("a", 4), ref("a", 0), ref("never", 1), ref("never", 3), ref("settled", 1),
			} {
				_, err := f.q.Apply(f.Context(), f.epoch, batch(r))
				f.fails(fmt.Sprintf("%s of %q with sequence %d", name, r.MessageID, r.StoreSeq), err, queue.ErrConflict)
			}
		}
		f.equal("state", f.snapshot("a", "b", "settled"), before)
	}},
	{"a pair whose tombstone is gone is a no-op (B-049, G-X07)", func(f *fixture) {
		refs := f.store("a", "b")
		f.accept(refs[0])
		f.confirm(refs[0])
		f.clock.Advance(window)
		f.equal("compacted", f.compact(10), 1)
		f.equal("status", f.status("a"), "")
		for range 2 {
			before := f.snapshot("a", "b")
			for _, batch := range deeds {
				f.apply(batch(refs[0]))
			}
			f.equal("state", f.snapshot("a", "b"), before)
			f.equal("rows", sequences(f.reopen()), []int64{2})
		}
	}},
	// An accept may wait in the lane for as long as the store is away, and its id be forgotten and stored anew before it.
	{"a pair whose id was forgotten and stored anew is a no-op (B-049, G-X07)", func(f *fixture) {
		old := f.store("a")[0]
		f.accept(old)
		f.confirm(old)
		f.clock.Advance(window)
		f.compact(10)
		f.equal("new sequence", f.store("a"), []queue.JobRef{ref("a", 2)})
		before := f.snapshot("a")
		for _, batch := range deeds {
			f.apply(batch(old))
		}
		f.equal("state", f.snapshot("a"), before)
		f.equal("status", f.status("a"), queue.StatusStored)
		f.equal("rows", sequences(f.reopen()), []int64{2})
	}},
	{"a confirm may come before the accept; the id stays until both are there (B-050, G-130)", func(f *fixture) {
		r := f.store("a")[0]
		f.confirm(r)
		f.equal("rows", len(f.reopen()), 0)
		f.equal("bytes", f.read(1)[0], protocol.Job{})
		f.clock.Advance(100 * window)
		f.equal("compacted", f.compact(10), 0)
		f.equal("resubmitted", f.resubmit("a"), queue.StoreResult{StoreSeq: 1, Verdict: protocol.AlreadyConfirmed})
		f.accept(r)
		f.equal("status", f.status("a"), queue.StatusConfirmed)
		f.equal("compacted at once", f.compact(10), 0)
		f.clock.Advance(window)
		f.equal("compacted after the window", f.compact(10), 1)
	}},
	{"compaction never takes a row that is not both accepted and confirmed (B-051)", func(f *fixture) {
		refs := f.store("stored", "accepted", "confirmed", "both", "dead")
		f.accept(refs[1], refs[3], refs[4])
		f.confirm(refs[2], refs[3])
		f.bury("poison", refs[4])
		f.clock.Advance(1000 * window)
		f.equal("compacted", f.compact(100), 1)
		f.equal("compacted again", f.compact(100), 0)
		f.equal("rows", sequences(f.reopen()), []int64{1, 2})
		for id, want := range map[string]string{
			"stored": queue.StatusStored, "accepted": queue.StatusStored, "confirmed": queue.StatusConfirmed,
			"both": "", "dead": queue.StatusDeadLettered,
		} {
			f.equal(id, f.status(id), want)
		}
	}},
	{"holes are normal (B-052)", func(f *fixture) {
		refs := f.store(numbered("h", 5)...)
		f.confirm(refs[1], refs[3])
		f.equal("rows", sequences(f.reopen()), []int64{1, 3, 5})
		f.equal("cursor", f.cursor, int64(5))
	}},
	{"when everything is confirmed the cursor stays (B-053)", func(f *fixture) {
		refs := f.store("a", "b", "c")
		f.accept(refs...)
		f.confirm(refs...)
		f.equal("rows", len(f.reopen()), 0)
		f.clock.Advance(window)
		f.equal("compacted", f.compact(10), 3)
		f.equal("rows", len(f.reopen()), 0)
		f.equal("next", f.store("d"), []queue.JobRef{ref("d", 4)})
	}},
	{"jobs are read by sequence in the asked order; settled and unknown ones are empty", func(f *fixture) {
		refs := f.store("a", "b", "c")
		f.confirm(refs[1])
		f.bury("poison", refs[2])
		f.equal("jobs", f.read(3, 99, 1, 2, 0, -1, math.MaxInt64, 1), []protocol.Job{
			jobOf("c"), {}, jobOf("a"), {}, {}, {}, {}, jobOf("a"),
		})
		f.equal("no jobs", len(f.read()), 0)
	}},
	{"nothing returned or given is shared with the store (B-055, G-133, G-137)", func(f *fixture) {
		request := requestOf("a")
		f.apply(queue.Batch{Stores: []queue.StoreRequest{request}})
		spoil := func(job protocol.Job) {
			job.Headers["ce-id"] = "changed"
			job.Headers["new"] = "header"
			job.Payload[0] ^= 0xff
		}
		spoil(request.Job)
		f.equal("after the request was changed", f.read(1)[0], jobOf("a"))
		spoil(f.read(1)[0])
		f.equal("after an answer was changed", f.read(1)[0], jobOf("a"))

		f.bury("poison", ref("a", 1))
		letters := f.letters()
		letters[0].Reason = "changed"
		f.equal("reason", f.letters()[0].Reason, "poison")
		f.reopen()
		f.equal("after a restart", f.read(1)[0], jobOf("a"))
	}},
}

var attempts = []scenario{
	{"counters are kept with the row and never decrease", func(f *fixture) {
		r := f.store("a")[0]
		for _, step := range []struct{ attempts, uncounted, wantAttempts, wantUncounted int }{
			{1, 0, 1, 0}, {3, 2, 3, 2}, {2, 1, 3, 2}, {0, 5, 3, 5}, {4, 0, 4, 5}, {-1, -1, 4, 5}, {4, 5, 4, 5},
		} {
			f.apply(queue.Batch{Attempts: []queue.AttemptRecord{{JobRef: r, Attempts: step.attempts, Uncounted: step.uncounted}}})
			state, _ := f.lookup("a")
			f.equal("attempts", state.Attempts, step.wantAttempts)
			f.equal("row", f.reopen(), []queue.Row{{
				JobRef: r, PayloadBytes: len(jobOf("a").Payload), Attempts: step.wantAttempts, Uncounted: step.wantUncounted,
				StoredAt: f.clock.Now(),
			}})
		}
		f.equal("bytes", f.read(1)[0], jobOf("a"))
	}},
	{"recording an attempt of a settled or dead job changes nothing", func(f *fixture) {
		refs := f.store("confirmed", "dead")
		f.confirm(refs[0])
		f.bury("poison", refs[1])
		before := f.snapshot("confirmed", "dead")
		for _, r := range refs {
			f.apply(queue.Batch{Attempts: []queue.AttemptRecord{{JobRef: r, Attempts: 50, LastReason: "late"}}})
		}
		f.equal("state", f.snapshot("confirmed", "dead"), before)
	}},
	{"the last reason becomes that of a dead letter without one", func(f *fixture) {
		r := f.store("a")[0]
		f.apply(queue.Batch{Attempts: []queue.AttemptRecord{
			{JobRef: r, Attempts: 1, LastReason: "first"}, {JobRef: r, Attempts: 2, LastReason: "second"},
			{JobRef: r, Attempts: 1, LastReason: "ignored"},
		}})
		f.reopen()
		f.bury("", r)
		f.equal("reason", f.letters()[0].Reason, "second")
		f.equal("attempts", f.letters()[0].Attempts, 3)
	}},
}

var deadLetters = []scenario{
	{"a dead letter keeps its job and its story, and is not dispatched again", func(f *fixture) {
		refs := f.store("a", "b", "c")
		f.accept(refs[1])
		f.clock.Advance(1e9)
		f.bury("poison", refs[1])
		since := f.clock.Now()
		f.clock.Advance(1e9)
		f.bury("another reason", refs[1]) // a repeat
		want := []queue.DeadLetter{{JobRef: refs[1], PayloadBytes: len(jobOf("b").Payload), Attempts: 3, Reason: "poison", Since: since}}
		for range 2 {
			f.equal("letters", f.letters(), want)
			f.equal("status", f.status("b"), queue.StatusDeadLettered)
			f.equal("bytes", f.read(2)[0], jobOf("b"))
			f.equal("resubmitted", f.resubmit("b"), queue.StoreResult{StoreSeq: 2, Verdict: protocol.AlreadyDeadLettered})
			f.equal("rows", sequences(f.reopen()), []int64{1, 3})
		}
		_, state, epoch, err := loadAll(f.Context(), f.q)
		if err != nil {
			f.Fatal(err)
		}
		f.epoch = epoch
		f.equal("counted", state.DeadLetters, int64(1))
	}},
	{"dead letters are listed in pages", func(f *fixture) {
		refs := f.store(numbered("d", 7)...)
		f.bury("poison", refs[0], refs[2], refs[3], refs[5], refs[6])
		var got []int64
		for after := int64(0); ; {
			page, err := f.q.ListDeadLetters(f.Context(), after, 2)
			if err != nil {
				f.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, letter := range page {
				got = append(got, letter.StoreSeq)
				after = letter.StoreSeq
			}
		}
		f.equal("sequences", got, []int64{1, 3, 4, 6, 7})
		none, err := f.q.ListDeadLetters(f.Context(), 0, 0)
		if err != nil || len(none) != 0 {
			f.Errorf("a page of 0: %v, error %v", none, err)
		}
	}},
	{"a redriven job starts over", func(f *fixture) {
		refs := f.store("a", "b")
		f.accept(refs[0])
		f.apply(queue.Batch{Attempts: []queue.AttemptRecord{{JobRef: refs[0], Attempts: 2, Uncounted: 4, LastReason: "old"}}})
		f.bury("poison", refs[0])
		row, err := f.q.Redrive(f.Context(), f.epoch, refs[0], "ann: fixed the handler")
		if err != nil {
			f.Fatal(err)
		}
		want := queue.Row{JobRef: refs[0], PayloadBytes: len(jobOf("a").Payload), Accepted: true, StoredAt: f.clock.Now()}
		f.equal("row", row, want)
		f.equal("row after a restart", f.reopen()[0], want)
		f.equal("letters", len(f.letters()), 0)
		f.equal("bytes", f.read(1)[0], jobOf("a"))
		f.equal("resubmitted", f.resubmit("a"), queue.StoreResult{StoreSeq: 1, Verdict: protocol.AlreadyStored})
		f.bury("", refs[0])
		f.equal("old reason", f.letters()[0].Reason, "")
		f.confirm(refs[0])
		f.equal("status", f.status("a"), queue.StatusConfirmed)
	}},
	{"a dropped job leaves a tombstone that never claims success (I-8)", func(f *fixture) {
		refs := f.store("a", "b")
		f.accept(refs[0])
		f.bury("poison", refs...)
		for _, r := range refs {
			if err := f.q.Drop(f.Context(), f.epoch, r, "ann: not needed"); err != nil {
				f.Fatal(err)
			}
		}
		f.confirm(refs[0]) // too late
		f.equal("rows", len(f.reopen()), 0)
		for i, r := range refs {
			f.equal("status", f.status(r.MessageID), queue.StatusDropped)
			f.equal("resubmitted", f.resubmit(r.MessageID), queue.StoreResult{StoreSeq: int64(i + 1), Verdict: protocol.AlreadyDeadLettered})
		}
		f.equal("bytes", f.read(1, 2), make([]protocol.Job, 2))
		f.equal("letters", len(f.letters()), 0)
		f.clock.Advance(window)
		f.equal("compacted (the other was never accepted)", f.compact(10), 1)
	}},
	{"what is no dead letter cannot be redriven or dropped", func(f *fixture) {
		refs := f.store("stored", "confirmed", "dropped", "redriven", "dead")
		f.confirm(refs[1])
		f.bury("poison", refs[2], refs[3], refs[4])
		if err := f.q.Drop(f.Context(), f.epoch, refs[2], "test"); err != nil {
			f.Fatal(err)
		}
		if _, err := f.q.Redrive(f.Context(), f.epoch, refs[3], "test"); err != nil {
			f.Fatal(err)
		}
		ids := []string{"stored", "confirmed", "dropped", "redriven", "dead"}
		before := f.snapshot(ids...)
		for _, r := range append(refs[:4:4], ref("never", 99), ref("dead", 1), ref("", 0)) {
			row, err := f.q.Redrive(f.Context(), f.epoch, r, "test")
			f.fails("redrive of "+r.MessageID, err, queue.ErrNotFound)
			f.equal("row", row, queue.Row{})
			f.fails("drop of "+r.MessageID, f.q.Drop(f.Context(), f.epoch, r, "test"), queue.ErrNotFound)
		}
		f.equal("state", f.snapshot(ids...), before)
	}},
	{"a confirm settles a dead letter; a dead letter never undoes a confirm", func(f *fixture) {
		refs := f.store("a", "b", "c")
		f.bury("timed out", refs[0])
		f.confirm(refs[0])
		f.confirm(refs[1])
		f.bury("late", refs[1])
		f.apply(queue.Batch{
			DeadLetters: []queue.DeadLetterRequest{{JobRef: refs[2], Reason: "timed out"}}, Confirms: []queue.JobRef{refs[2]},
		})
		for _, r := range refs {
			f.equal(r.MessageID, f.status(r.MessageID), queue.StatusConfirmed)
		}
		f.equal("letters", len(f.letters()), 0)
		f.equal("rows", len(f.reopen()), 0)
	}},
	{"reasons are cut to the limit on a character's boundary", func(f *fixture) {
		refs := f.store("a")
		long := ""
		for len(long) <= protocol.MaxReasonBytes {
			long += "größer \xff"
		}
		f.bury(long, refs...)
		reason := f.letters()[0].Reason
		if len(reason) > protocol.MaxReasonBytes || len(reason) < protocol.MaxReasonBytes-4 {
			f.Errorf("the reason has %d bytes", len(reason))
		}
		f.equal("bytes that JSON can carry", reason, string([]rune(reason)))
	}},
	{"deeds of people leave audit lines that outlive the row", func(f *fixture) {
		if _, ok := f.q.(queue.Auditor); !ok {
			return // an optional interface
		}
		refs := f.store("a", "b")
		f.bury("poison", refs...)
		if _, err := f.q.Redrive(f.Context(), f.epoch, refs[0], "ann: fixed"); err != nil {
			f.Fatal(err)
		}
		f.clock.Advance(1e9)
		if err := f.q.Drop(f.Context(), f.epoch, refs[1], "bob: unwanted"); err != nil {
			f.Fatal(err)
		}
		f.accept(refs[1])
		f.clock.Advance(window)
		f.compact(10)
		f.reopen()
		auditor := f.q.(queue.Auditor)
		want := []queue.AuditLine{
			{Number: 1, At: NewClock().Now(), Action: queue.AuditRedrive, JobRef: refs[0], Text: "ann: fixed"},
			{Number: 2, At: NewClock().Now().Add(1e9), Action: queue.AuditDrop, JobRef: refs[1], Text: "bob: unwanted"},
		}
		for after := range want {
			lines, err := auditor.ListAudit(f.Context(), uint64(after), 10)
			if err != nil {
				f.Fatal(err)
			}
			f.equal("lines", lines, want[after:])
		}
		lines, err := auditor.ListAudit(f.Context(), 0, 1)
		if err != nil {
			f.Fatal(err)
		}
		f.equal("a page of 1", lines, want[:1])
	}},
}

var errVisit = errors.New("the visitor gave up")
