package local

import (
	"strconv"
	"testing"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// backlog opens a queue with jobs 1 to n, which only its layers know.
func backlog(tb testing.TB, n int) (*Queue, queue.Epoch) {
	tb.Helper()
	q, err := Open(tb.Context(), Options{Dir: tb.TempDir(), FlowUID: "uid-1"})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = q.Close() })
	_, epoch, err := q.Load(tb.Context(), "owner", func(queue.Row) error { return nil })
	if err != nil {
		tb.Fatal(err)
	}
	stores := make([]queue.StoreRequest, n)
	for i := range stores {
		stores[i].Job = protocol.Job{MessageID: strconv.Itoa(i + 1), Payload: []byte("x")}
	}
	if _, err := q.Apply(tb.Context(), epoch, queue.Batch{Stores: stores}); err != nil {
		tb.Fatal(err)
	}
	return q, epoch
}

func numbered(seq int64) queue.JobRef {
	return queue.JobRef{MessageID: strconv.FormatInt(seq, 10), StoreSeq: seq}
}

// A list of dead letters copies these, and of other rows only those that the tree may take for one.
func TestListingDeadLettersCopiesFewRows(t *testing.T) {
	q, epoch := backlog(t, 100)
	expect := func(step string, copied int, listed ...int64) {
		t.Helper()
		if got := len((&view{layers: q.layers()}).changedFor(dead)); got != copied {
			t.Errorf("%s: %d rows are copied, want %d", step, got, copied)
		}
		letters, err := q.ListDeadLetters(t.Context(), 0, 10)
		if err != nil || len(letters) != len(listed) {
			t.Fatalf("%s: %v, error %v, want %v", step, letters, err, listed)
		}
		for i, seq := range listed {
			if letters[i].JobRef != numbered(seq) {
				t.Errorf("%s: letter %d is %v, want that of job %d", step, i, letters[i], seq)
			}
		}
	}
	bury := func(seqs ...int64) {
		t.Helper()
		var requests []queue.DeadLetterRequest
		for _, seq := range seqs {
			requests = append(requests, queue.DeadLetterRequest{JobRef: numbered(seq)})
		}
		if _, err := q.Apply(t.Context(), epoch, queue.Batch{DeadLetters: requests}); err != nil {
			t.Fatal(err)
		}
	}
	redrive := func(seq int64) {
		t.Helper()
		if _, err := q.Redrive(t.Context(), epoch, numbered(seq), "test"); err != nil {
			t.Fatal(err)
		}
	}
	expect("jobs alone", 0)
	bury(7, 50, 60)
	expect("with dead letters", 3, 7, 50, 60)
	redrive(60)
	expect("after a redrive", 2, 7, 50)
	if err := Drain(q); err != nil {
		t.Fatal(err)
	}
	expect("all in the tree", 0, 7, 50)
	redrive(7)
	bury(60)
	expect("a letter of the tree that is none any more", 2, 50, 60)
}

func BenchmarkListDeadLetters(b *testing.B) {
	q, epoch := backlog(b, 10_000)
	if _, err := q.Apply(b.Context(), epoch, queue.Batch{DeadLetters: []queue.DeadLetterRequest{{JobRef: numbered(7)}}}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if letters, err := q.ListDeadLetters(b.Context(), 0, 10); err != nil || len(letters) != 1 {
			b.Fatalf("%v, error %v", letters, err)
		}
	}
}
