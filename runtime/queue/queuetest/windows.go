package queuetest

import (
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

var windows = []scenario{
	{"the window starts at the later of confirm and accept", func(f *fixture) {
		refs := f.store("accepted first", "confirmed first")
		f.accept(refs[0])
		f.confirm(refs[1])
		f.clock.Advance(5 * window)
		f.confirm(refs[0])
		f.accept(refs[1])
		f.clock.Advance(window - 1)
		f.equal("compacted inside the window", f.compact(10), 0)
		f.clock.Advance(1)
		f.equal("compacted after it", f.compact(10), 2)
	}},
	{"a confirmed id is answered inside the window and new after it (B-030, B-031)", func(f *fixture) {
		r := f.store("a")[0]
		f.accept(r)
		f.confirm(r)
		f.clock.Advance(window - 1)
		f.compact(10)
		f.reopen()
		f.equal("inside", f.resubmit("a"), queue.StoreResult{StoreSeq: 1, Verdict: protocol.AlreadyConfirmed})
		f.equal("cursor", f.cursor, int64(1))
		f.clock.Advance(1)
		f.equal("compacted", f.compact(10), 1)
		f.equal("after", f.resubmit("a"), queue.StoreResult{StoreSeq: 2, Verdict: protocol.StoredNew})
		f.equal("rows", sequences(f.reopen()), []int64{2})
		f.equal("bytes", f.read(1, 2), []protocol.Job{{}, jobOf("a")})
	}},
	{"a repeat does not start the window anew", func(f *fixture) {
		r := f.store("a")[0]
		f.accept(r)
		f.confirm(r)
		f.clock.Advance(window / 2)
		f.confirm(r)
		f.accept(r)
		f.resubmit("a")
		f.clock.Advance(window / 2)
		f.equal("compacted", f.compact(10), 1)
	}},
	{"compaction takes the oldest first and at most its limit", func(f *fixture) {
		refs := f.store(numbered("w", 6)...)
		f.accept(refs...)
		for _, i := range []int{3, 0, 5, 1, 4, 2} {
			f.confirm(refs[i])
			f.clock.Advance(time.Second)
		}
		f.clock.Advance(window)
		f.equal("a limit of 0", f.compact(0), 0)
		f.equal("a negative limit", f.compact(-1), 0)
		f.equal("a limit of 2", f.compact(2), 2)
		f.equal("left", f.heldOf(numbered("w", 6)), []string{"w-2", "w-3", "w-5", "w-6"})
		f.equal("the rest", f.compact(100), 4)
		f.equal("nothing left", f.compact(100), 0)
	}},
	{"only tombstones older than the window go", func(f *fixture) {
		refs := f.store("a", "b")
		f.accept(refs...)
		f.confirm(refs[0])
		f.clock.Advance(window / 2)
		f.confirm(refs[1])
		f.clock.Advance(window / 2)
		f.equal("compacted", f.compact(10), 1)
		f.equal("left", f.heldOf([]string{"a", "b"}), []string{"b"})
	}},
	{"the window can change while the queue runs", func(f *fixture) {
		d, ok := f.q.(queue.Deduplicating)
		if !ok {
			return // an optional interface
		}
		refs := f.store("a", "b")
		f.accept(refs...)
		f.confirm(refs[0])
		d.SetDeduplicationWindow(3 * window)
		f.clock.Advance(2 * window)
		f.equal("compacted under a longer window", f.compact(10), 0)
		d.SetDeduplicationWindow(window)
		f.equal("compacted under a shorter one", f.compact(10), 1)
		d.SetDeduplicationWindow(0)
		f.confirm(refs[1])
		f.equal("compacted without a window", f.compact(10), 1)
	}},
	{"a clock that jumps back loses no tombstone early and blocks none for ever", func(f *fixture) {
		refs := f.store("before", "after")
		f.accept(refs...)
		f.confirm(refs[0])
		f.clock.Advance(-time.Hour)
		f.confirm(refs[1])
		f.clock.Advance(window - 1)
		f.equal("compacted", f.compact(10), 0)
		f.clock.Advance(time.Hour + 1)
		f.equal("compacted when both are old", f.compact(10), 2)
	}},
}

// heldOf are the ids that the store still knows.
func (f *fixture) heldOf(ids []string) []string {
	f.Helper()
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return f.status(id) == "" })
}

var orphans = []scenario{
	{"never accepted jobs are reported and never purged silently (B-060, G-X16)", func(f *fixture) {
		keeper, ok := f.q.(queue.OrphanKeeper)
		if !ok {
			return // an optional interface
		}
		start := f.clock.Now()
		refs := f.store("stored", "accepted", "confirmed", "dead")
		f.accept(refs[1])
		f.confirm(refs[2])
		f.bury("poison", refs[3])
		f.clock.Advance(time.Hour)
		young := f.store("young")[0]
		f.clock.Advance(1000 * window)
		f.equal("compacted", f.compact(100), 0)

		want := []queue.Orphan{
			{JobRef: refs[0], Status: queue.StatusStored, StoredAt: start},
			{JobRef: refs[2], Status: queue.StatusConfirmed, StoredAt: start},
			{JobRef: refs[3], Status: queue.StatusDeadLettered, StoredAt: start},
		}
		list := func(before time.Time, after int64, limit int) []queue.Orphan {
			f.Helper()
			got, err := keeper.ListOrphans(f.Context(), before, after, limit)
			if err != nil {
				f.Fatal(err)
			}
			return got
		}
		f.equal("old ones", list(start.Add(time.Minute), 0, 10), want)
		f.equal("a page", list(start.Add(time.Minute), 0, 2), want[:2])
		f.equal("the next page", list(start.Add(time.Minute), 3, 2), want[2:])
		f.equal("all", len(list(f.clock.Now(), 0, 10)), 4)
		f.equal("none is older than itself", len(list(start, 0, 10)), 0)

		for _, r := range []queue.JobRef{refs[0], refs[2]} {
			if err := keeper.AcceptOrphan(f.Context(), f.epoch, r, "ann: the producer is gone"); err != nil {
				f.Fatal(err)
			}
		}
		f.equal("left", list(f.clock.Now(), 0, 10), []queue.Orphan{want[2], {JobRef: young, Status: queue.StatusStored, StoredAt: start.Add(time.Hour)}})
		for _, r := range []queue.JobRef{refs[0], refs[1], ref("never", 99), ref("young", 1)} {
			f.fails("accepting "+r.MessageID, keeper.AcceptOrphan(f.Context(), f.epoch, r, "test"), queue.ErrNotFound)
		}
		f.clock.Advance(window)
		f.equal("compacted", f.compact(100), 1)
		f.equal("rows", sequences(f.reopen()), []int64{1, 2, 5})
		if auditor, ok := f.q.(queue.Auditor); ok {
			lines, err := auditor.ListAudit(f.Context(), 0, 10)
			if err != nil || len(lines) != 2 || lines[0].Action != queue.AuditAcceptOrphan || lines[0].Text != "ann: the producer is gone" {
				f.Errorf("audit lines %+v, error %v", lines, err)
			}
		}
	}},
}
