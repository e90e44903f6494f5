package intake_test

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/sidecar/intake"
)

// newFullWorld is a world whose backlog has room for three jobs, and holds the keys 1, 2 and 3 under these sequences.
func newFullWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, func(p *endpoint.ProducerOptions, _ *intake.Options) {
		p.Config.BacklogJobs, p.Config.BacklogBytes = 3, 1<<30
	})
	for n := 1; n <= 3; n++ {
		if got := w.send("POST", jobs, "x", "Idempotency-Key", fmt.Sprint(n)); got.status != 201 {
			t.Fatalf("job %d: %d %s", n, got.status, got.body)
		}
	}
	return w
}

// Who repeats a job that is stored learns so, whether or not the flow takes new ones.
func TestRepeatNeedsNoRoom(t *testing.T) {
	w := newFullWorld(t)
	check := func(t *testing.T, unknown int) {
		w.t = t
		var answer jobAnswer
		repeat := w.send("POST", jobs, "x", "Idempotency-Key", "2")
		repeat.json(t, &answer)
		if repeat.status != 200 || answer.New || answer.Sequence != 2 || answer.State != queue.StatusStored || answer.ID != "|alice|2" {
			t.Errorf("the repeat: %d %s", repeat.status, repeat.body)
		}
		if want := jobs + "/" + url.PathEscape("|alice|2"); repeat.header.Get("Location") != want {
			t.Errorf("its location is %q, want %q", repeat.header.Get("Location"), want)
		}
		if got := w.send("POST", jobs, "y", "Idempotency-Key", "2"); got.status != 422 || !strings.Contains(got.body, "id-reused") {
			t.Errorf("another body: %d %s", got.status, got.body)
		}
		got := w.send("POST", jobs, "x", "Idempotency-Key", "4")
		if got.status != unknown || got.header.Get("Retry-After") == "" || got.header.Get("Location") != "" {
			t.Errorf("a new job: %d %s %v", got.status, got.body, got.header)
		}
		waited := w.send("POST", jobs+"?wait=confirmed&timeout=50ms", "x", "Idempotency-Key", "2")
		if waited.status != 504 || !strings.Contains(waited.body, `"sequence":2`) {
			t.Errorf("waiting for the end of the repeat: %d %s", waited.status, waited.body)
		}
	}
	t.Run("backlog full", func(t *testing.T) { check(t, 429) })
	w.producer.SetIntake(delivery.SetIntake{Dispatch: true})
	t.Run("suspended", func(t *testing.T) { check(t, 503) })
	w.t = t
	if s := w.stats(); s.Accepted != 3 {
		t.Errorf("%d jobs are stored, want 3", s.Accepted)
	}
}

func TestRepeatsInABatchNeedNoRoom(t *testing.T) {
	w := newWorld(t, func(p *endpoint.ProducerOptions, _ *intake.Options) {
		p.Config.BacklogJobs, p.Config.BacklogBytes = 1, 1<<30
	})
	event := func(id, data string) string {
		return fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/s","type":"t","datacontenttype":"text/plain","data":%q}`, id, data)
	}
	kind := []string{"Content-Type", "application/cloudevents-batch+json"}
	if got := w.send("POST", jobs, "["+event("1", "a")+"]", kind...); got.status != 200 || !strings.Contains(got.body, `"status":201`) {
		t.Fatalf("%d %s", got.status, got.body)
	}
	got := w.send("POST", jobs, "["+event("2", "b")+","+event("1", "a")+","+event("1", "other")+"]", kind...)
	var answers []jobAnswer
	got.json(t, &answers)
	var statuses []int
	for _, a := range answers {
		statuses = append(statuses, a.Status)
	}
	if want := []int{429, 200, 422}; got.status != 207 || fmt.Sprint(statuses) != fmt.Sprint(want) {
		t.Errorf("got %d %v, want 207 %v: %s", got.status, statuses, want, got.body)
	}
}

// What a look-up told a submitter is no acknowledgement: the id is kept until a receipt was handed out and acknowledged.
func TestRepeatWithoutReceiptLeavesTheIDUnacknowledged(t *testing.T) {
	const id = "|alice|lost"
	job := protocol.Job{MessageID: id, Headers: map[string]string{protocol.HeaderContentType: "application/octet-stream"}, Payload: []byte("x")}
	w := newWorld(t, func(p *endpoint.ProducerOptions, _ *intake.Options) {
		// An earlier process stored it, and ended before it could answer.
		_, epoch, err := p.Queue.Load(t.Context(), "before", func(queue.Row) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		stores := []queue.StoreRequest{{Job: job, Digest: endpoint.Digest(job)}}
		if _, err := p.Queue.Apply(t.Context(), epoch, queue.Batch{Stores: stores}); err != nil {
			t.Fatal(err)
		}
		p.Intake.Open = false
	})
	repeat := func() {
		t.Helper()
		if got := w.send("POST", jobs, "x", "Idempotency-Key", "lost"); got.status != 200 || !strings.Contains(got.body, `"sequence":1`) {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	accepted := func() bool {
		state, err := w.producer.Lookup(t.Context(), id)
		return err == nil && state.Accepted
	}
	repeat()
	w.stats() // whatever the answer set off is done now
	if accepted() {
		t.Error("a repeat that was only looked up made the id forgettable")
	}
	w.producer.SetIntake(delivery.SetIntake{Open: true, Dispatch: true})
	repeat()
	w.until("the acknowledged receipt makes the id forgettable", accepted)
}

// blind is a flow whose queue cannot be read.
type blind struct{ *endpoint.Producer }

func (blind) Lookup(context.Context, string) (queue.JobState, error) {
	return queue.JobState{}, fmt.Errorf("%w: %w", endpoint.ErrUnavailable, io.ErrUnexpectedEOF)
}

// Where nobody can look, nobody says that nothing is stored.
func TestUnreadableQueueLeavesTheOutcomeOpen(t *testing.T) {
	w := newFullWorld(t)
	w.options.Flow = blind{w.producer}
	request := httptest.NewRequestWithContext(t.Context(), "POST", jobs, strings.NewReader("x"))
	request.Header.Set("Authorization", "Bearer user:alice")
	request.Header.Set("Idempotency-Key", "1")
	recorder := httptest.NewRecorder()
	intake.New(w.options).Handler().ServeHTTP(recorder, request)
	if recorder.Code != 503 || !strings.Contains(recorder.Body.String(), "may or may not be stored") {
		t.Errorf("%d %s", recorder.Code, recorder.Body)
	}
}
