package queuetest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

var stores = []scenario{
	{"jobs come back byte for byte, also after a restart", func(f *fixture) {
		jobs := []protocol.Job{
			jobOf("plain"),
			{MessageID: "no headers", Payload: []byte{0}},
			{MessageID: "ünïcode ✓", Headers: map[string]string{"empty": "", "ключ": "значение"}, Payload: []byte("\x00\xff\n")},
			{MessageID: strings.Repeat("m", protocol.MaxIDBytes), Payload: bytes.Repeat([]byte("x"), 300<<10)},
			{MessageID: "largest", Payload: bytes.Repeat([]byte("0123456789abcdef"), protocol.MaxPayloadBytes/16)},
		}
		requests := make([]queue.StoreRequest, len(jobs))
		for i, job := range jobs {
			requests[i] = queue.StoreRequest{Job: job, Digest: digestOf(job.MessageID)}
		}
		f.apply(queue.Batch{Stores: requests})
		for range 2 {
			for i, got := range f.read(1, 2, 3, 4, 5) {
				if got.MessageID != jobs[i].MessageID || !bytes.Equal(got.Payload, jobs[i].Payload) || !maps.Equal(got.Headers, jobs[i].Headers) {
					f.Errorf("job %d came back changed", i+1)
				}
			}
			for i, row := range f.reopen() {
				f.equal("row", row, queue.Row{
					JobRef: ref(jobs[i].MessageID, int64(i+1)), PayloadBytes: len(jobs[i].Payload), StoredAt: f.clock.Now(),
				})
			}
		}
	}},
	{"another cursor than the store's is a conflict for a new id (B-044)", func(f *fixture) {
		f.store("a", "b", "c")
		before := f.snapshot("a", "b", "c", "new")
		for _, cursor := range []int64{5, 4, 2, 0, -1, protocol.MaxSequence} {
			_, err := f.q.Apply(f.Context(), f.epoch, queue.Batch{Cursor: cursor, Stores: requestsOf("a", "new")})
			f.fails(fmt.Sprintf("cursor %d", cursor), err, queue.ErrConflict)
		}
		f.equal("state", f.snapshot("a", "b", "c", "new"), before)
		f.equal("next", f.store("new"), []queue.JobRef{ref("new", 4)})
	}},
	{"a known id keeps its first write whatever comes with it (B-045, B-014)", func(f *fixture) {
		f.store("a", "b")
		again := requestOf("a")
		again.Job.Payload = []byte("encoded differently")
		for _, cursor := range []int64{2, 0, 1, 99, -1} {
			result, err := f.q.Apply(f.Context(), f.epoch, queue.Batch{Cursor: cursor, Stores: []queue.StoreRequest{again}})
			if err != nil {
				f.Fatalf("cursor %d: %v", cursor, err)
			}
			f.equal("result", result, queue.Result{Cursor: 2, Stores: []queue.StoreResult{{StoreSeq: 1, Verdict: protocol.AlreadyStored}}})
		}
		f.equal("bytes", f.read(1)[0], jobOf("a"))
	}},
	{"repeating a batch whose answer was lost changes nothing (B-022)", func(f *fixture) {
		b := queue.Batch{Stores: requestsOf("a", "b"), Accepts: []queue.JobRef{ref("a", 1)}, Confirms: []queue.JobRef{ref("b", 2)}}
		f.apply(b)
		before := f.snapshot("a", "b")
		result, err := f.q.Apply(f.Context(), f.epoch, b) // with the cursor of the first try
		if err != nil {
			f.Fatalf("repeating: %v", err)
		}
		f.equal("result", result, queue.Result{Cursor: 2, Stores: []queue.StoreResult{
			{StoreSeq: 1, Verdict: protocol.AlreadyStored}, {StoreSeq: 2, Verdict: protocol.AlreadyConfirmed},
		}})
		f.equal("state", f.snapshot("a", "b"), before)
	}},
	{"a known id with other bytes is a mismatch and stores nothing", func(f *fixture) {
		refs := f.store("stored", "confirmed", "dead", "dropped")
		f.confirm(refs[1])
		f.bury("poison", refs[2], refs[3])
		if err := f.q.Drop(f.Context(), f.epoch, refs[3], "test"); err != nil {
			f.Fatal(err)
		}
		for i, r := range refs {
			other := requestOf(r.MessageID)
			other.Digest = digestOf("other")
			result := f.apply(queue.Batch{Stores: []queue.StoreRequest{other}})
			f.equal(r.MessageID, result.Stores[0], queue.StoreResult{StoreSeq: int64(i + 1), Verdict: protocol.BodyMismatch})
		}
		f.equal("cursor", f.cursor, int64(4))
		f.equal("first write", f.read(1)[0], jobOf("stored"))
	}},
	{"one batch may hold new, known and repeated ids; new ones get the next sequences in order", func(f *fixture) {
		f.store("a")
		other := requestOf("c")
		other.Digest = digestOf("other")
		result := f.apply(queue.Batch{Stores: append(requestsOf("b", "a", "c", "b"), other, requestOf("d"))})
		f.equal("result", result, queue.Result{Cursor: 4, Stores: []queue.StoreResult{
			{StoreSeq: 2, Verdict: protocol.StoredNew},
			{StoreSeq: 1, Verdict: protocol.AlreadyStored},
			{StoreSeq: 3, Verdict: protocol.StoredNew},
			{StoreSeq: 2, Verdict: protocol.AlreadyStored},
			{StoreSeq: 3, Verdict: protocol.BodyMismatch},
			{StoreSeq: 4, Verdict: protocol.StoredNew},
		}})
	}},
	{"a job may live its whole life in one batch", func(f *fixture) {
		r := ref("a", 1)
		f.apply(queue.Batch{
			Stores: requestsOf("a"), Accepts: []queue.JobRef{r},
			Attempts: []queue.AttemptRecord{{JobRef: r, Attempts: 1}}, Confirms: []queue.JobRef{r},
		})
		state, _ := f.lookup("a")
		f.equal("state", state, queue.JobState{
			StoreSeq: 1, Status: queue.StatusConfirmed, Attempts: 1, Accepted: true, Digest: digestOf("a"),
		})
		f.equal("bytes", f.read(1)[0], protocol.Job{})
		f.equal("rows", len(f.reopen()), 0)
	}},
	{"a batch with one illegal part changes nothing at all", func(f *fixture) {
		refs := f.store("a", "b", "c")
		before := f.snapshot("a", "b", "c", "new")
		good := queue.Batch{
			Cursor: 3, Stores: requestsOf("new"), Accepts: []queue.JobRef{refs[0]},
			Attempts:    []queue.AttemptRecord{{JobRef: refs[0], Attempts: 2}},
			DeadLetters: []queue.DeadLetterRequest{{JobRef: refs[1], Reason: "poison"}},
			Confirms:    []queue.JobRef{refs[2]},
		}
		never := ref("never", 99)
		for name, spoil := range map[string]func(*queue.Batch){
			"store": func(b *queue.Batch) {
				b.Stores = append(b.Stores, queue.StoreRequest{Job: protocol.Job{MessageID: "x"}})
			},
			"accept":      func(b *queue.Batch) { b.Accepts = append(b.Accepts, never) },
			"attempt":     func(b *queue.Batch) { b.Attempts = append(b.Attempts, queue.AttemptRecord{JobRef: never}) },
			"dead letter": func(b *queue.Batch) { b.DeadLetters = append(b.DeadLetters, queue.DeadLetterRequest{JobRef: never}) },
			"confirm":     func(b *queue.Batch) { b.Confirms = append(b.Confirms, never) },
		} {
			bad := good
			bad.Stores, bad.Accepts, bad.Confirms = slices.Clone(good.Stores), slices.Clone(good.Accepts), slices.Clone(good.Confirms)
			spoil(&bad)
			result, err := f.q.Apply(f.Context(), f.epoch, bad)
			if !errors.Is(err, queue.ErrConflict) && !errors.Is(err, protocol.ErrInvalid) {
				f.Errorf("illegal %s: error %v", name, err)
			}
			f.equal("result of an illegal "+name, result, queue.Result{})
			f.equal("state after an illegal "+name, f.snapshot("a", "b", "c", "new"), before)
		}
		f.equal("rows", sequences(f.reopen()), []int64{1, 2, 3})
		f.apply(good)
	}},
	{"jobs that break a limit are refused at this door too (G-134)", func(f *fixture) {
		many := map[string]string{}
		for i := range protocol.MaxHeaders + 1 {
			many[fmt.Sprint(i)] = ""
		}
		for name, job := range map[string]protocol.Job{
			"no id":         {Payload: []byte("x")},
			"long id":       {MessageID: strings.Repeat("m", protocol.MaxIDBytes+1), Payload: []byte("x")},
			"control":       {MessageID: "a\x00b", Payload: []byte("x")},
			"no payload":    {MessageID: "a"},
			"large payload": {MessageID: "a", Payload: make([]byte, protocol.MaxPayloadBytes+1)},
			"many headers":  {MessageID: "a", Payload: []byte("x"), Headers: many},
			"large headers": {MessageID: "a", Payload: []byte("x"), Headers: map[string]string{"k": strings.Repeat("v", protocol.MaxHeaderBytes)}},
		} {
			_, err := f.q.Apply(f.Context(), f.epoch, queue.Batch{Stores: []queue.StoreRequest{{Job: job}}})
			f.fails(name, err, protocol.ErrInvalid)
		}
		f.equal("rows", len(f.load()), 0)
	}},
	{"64 concurrent stores of one id append once and all get the same answer (B-046)", func(f *fixture) {
		const n = 64
		results := make([]queue.StoreResult, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				request := requestOf("one")
				request.Job.Payload = fmt.Appendf(nil, "encoding %d", i)
				results[i] = f.storeRacing(request)
			})
		}
		wg.Wait()
		fresh := 0
		for _, r := range results {
			f.equal("sequence", r.StoreSeq, int64(1))
			if r.Verdict == protocol.StoredNew {
				fresh++
			}
		}
		f.equal("appends", fresh, 1)
		f.cursor = 1
		first := f.read(1)[0]
		f.equal("rows", sequences(f.reopen()), []int64{1})
		f.equal("bytes", f.read(1)[0], first)
	}},
	{"concurrent stores of different ids get different sequences without a hole", func(f *fixture) {
		const writers, each = 8, 8
		seqs := make([]int64, writers*each)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					seqs[w*each+i] = f.storeRacing(requestOf(fmt.Sprintf("w%d-%d", w, i))).StoreSeq
				}
			})
		}
		wg.Wait()
		slices.Sort(seqs)
		for i, seq := range seqs {
			f.equal("sequence", seq, int64(i+1))
		}
		f.cursor = writers * each
		f.equal("rows", len(f.reopen()), writers*each)
	}},
}

// storeRacing stores one job beside other writers of the same epoch: a conflict only means that the cursor has moved.
func (f *fixture) storeRacing(request queue.StoreRequest) queue.StoreResult {
	for {
		now, err := f.q.Apply(f.Context(), f.epoch, queue.Batch{})
		if err != nil {
			f.Errorf("reading the cursor: %v", err)
			return queue.StoreResult{}
		}
		result, err := f.q.Apply(f.Context(), f.epoch, queue.Batch{Cursor: now.Cursor, Stores: []queue.StoreRequest{request}})
		if err == nil {
			return result.Stores[0]
		}
		if !errors.Is(err, queue.ErrConflict) {
			f.Errorf("storing: %v", err)
			return queue.StoreResult{}
		}
	}
}
