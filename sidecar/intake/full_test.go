package intake_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/sidecar/intake"
)

// fullQueue has no room for new jobs, or does not answer at all.
type fullQueue struct {
	queue.WorkQueue
	full, hangs atomic.Bool
}

func (q *fullQueue) Apply(ctx context.Context, epoch queue.Epoch, batch queue.Batch) (queue.Result, error) {
	if q.hangs.Load() {
		<-ctx.Done()
		return queue.Result{}, ctx.Err()
	}
	if q.full.Load() {
		for _, store := range batch.Stores {
			if _, known, err := q.Lookup(ctx, store.Job.MessageID); !known {
				return queue.Result{}, fmt.Errorf("%w: no space left on device", errors.Join(queue.ErrFull, err))
			}
		}
	}
	return q.WorkQueue.Apply(ctx, epoch, batch)
}

func newRoomlessWorld(t *testing.T) (*world, *fullQueue) {
	q := &fullQueue{}
	w := newWorld(t, func(p *endpoint.ProducerOptions, i *intake.Options) {
		q.WorkQueue, p.Queue = p.Queue, q
		p.OperationTimeout, p.Config.QueueAttempts = 100*time.Millisecond, 2
		i.StoreTimeout = 2 * time.Second
	})
	return w, q
}

// Every way to submit is answered at once while the queue is full: 503 with Retry-After and a problem that says so; a repeat of what is
// stored is known, also in the middle of what finds no room; and with room again all of it passes (B-239).
func TestFullQueueIsAnsweredOnEveryWay(t *testing.T) {
	const event = `{"specversion":"1.0","source":"/s","type":"t","id":"%s","data":"x"}`
	line := func(ids ...string) string {
		lines := make([]string, len(ids))
		for i, id := range ids {
			lines[i] = fmt.Sprintf(event, id)
		}
		return strings.Join(lines, "\n")
	}
	w, q := newRoomlessWorld(t)
	if r := w.send(http.MethodPost, "/v1/flows/orders/jobs", "x", "Idempotency-Key", "kept"); r.status != http.StatusCreated {
		t.Fatalf("%d %s", r.status, r.body)
	}
	q.full.Store(true)
	for name, c := range map[string]struct {
		query, body, kind string
		status            int
	}{
		"single":            {"", fmt.Sprintf(event, "a"), "application/cloudevents+json", http.StatusServiceUnavailable},
		"wait=confirmed":    {"?wait=confirmed&timeout=1m", fmt.Sprintf(event, "b"), "application/cloudevents+json", http.StatusServiceUnavailable},
		"batch":             {"", "[" + strings.ReplaceAll(line("c", "d"), "\n", ",") + "]", "application/cloudevents-batch+json", http.StatusMultiStatus},
		"batch and wait":    {"?wait=confirmed&timeout=1m", "[" + fmt.Sprintf(event, "e") + "]", "application/cloudevents-batch+json", http.StatusMultiStatus},
		"NDJSON":            {"", line("f", "g") + "\n", "application/x-ndjson", http.StatusOK},
		"NDJSON that waits": {"?wait=confirmed&timeout=1m", line("h") + "\n", "application/x-ndjson", http.StatusOK},
	} {
		began := time.Now()
		r := w.send(http.MethodPost, "/v1/flows/orders/jobs"+c.query, c.body, "Content-Type", c.kind)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s was answered after %s", name, took)
		}
		if r.status != c.status || !strings.Contains(r.body, "/problems/queue-full") || !strings.Contains(r.body, `"retryAfterSeconds":5`) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
		if c.kind != "application/x-ndjson" && r.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", name)
		}
	}
	if r := w.send(http.MethodPost, "/v1/flows/orders/jobs", "x", "Idempotency-Key", "kept"); r.status != http.StatusOK {
		t.Errorf("a repeat on a full queue: %d %s", r.status, r.body)
	}
	if s := w.stats(); !s.QueueFull || s.QueueAvailable || s.Epoch != 1 {
		t.Errorf("full %v, available %v, epoch %d", s.QueueFull, s.QueueAvailable, s.Epoch)
	}
	q.full.Store(false)
	if r := w.send(http.MethodPost, "/v1/flows/orders/jobs", fmt.Sprintf(event, "a"), "Content-Type", "application/cloudevents+json"); r.status != http.StatusCreated {
		t.Errorf("with room again: %d %s", r.status, r.body)
	}
	if s := w.stats(); s.QueueFull || !s.QueueAvailable {
		t.Errorf("with room again: full %v, %q", s.QueueFull, s.QueueMessage)
	}
}

// A queue that does not answer is told with 503 after StoreTimeout at the latest, on every way.
func TestHangingQueueIsAnsweredOnEveryWay(t *testing.T) {
	const event = `{"specversion":"1.0","source":"/s","type":"t","id":"%s","data":"x"}`
	w, q := newRoomlessWorld(t)
	q.hangs.Store(true)
	for name, c := range map[string]struct{ query, body, kind string }{
		"single":         {"", fmt.Sprintf(event, "a"), "application/cloudevents+json"},
		"wait=confirmed": {"?wait=confirmed&timeout=1m", fmt.Sprintf(event, "b"), "application/cloudevents+json"},
		"batch":          {"", "[" + fmt.Sprintf(event, "c") + "]", "application/cloudevents-batch+json"},
		"NDJSON":         {"", fmt.Sprintf(event, "d") + "\n", "application/x-ndjson"},
	} {
		began := time.Now()
		r := w.send(http.MethodPost, "/v1/flows/orders/jobs"+c.query, c.body, "Content-Type", c.kind)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s was answered after %s", name, took)
		}
		if !strings.Contains(r.body, "/problems/unavailable") || !strings.Contains(r.body, "retryAfterSeconds") {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	q.hangs.Store(false)
	w.until("the flow takes jobs again", func() bool {
		return w.send(http.MethodPost, "/v1/flows/orders/jobs", fmt.Sprintf(event, "z"), "Content-Type", "application/cloudevents+json").status == http.StatusCreated
	})
}
