package endpoint_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// An error that persists is not a log line each time: a queue that fails hundreds of times, a worker that is refused as often and a
// flood of callers that are turned away say a handful of things in all (B-284).
func TestB284_APersistentErrorSaysLittle(t *testing.T) {
	var lines, tries, refusals atomic.Int64
	q := &faultyQueue{WorkQueue: memoryQueue(t)}
	f := newFlow(t, q)
	f.options.Log = funcr.New(func(_, args string) {
		lines.Add(1)
		t.Log(args)
	}, funcr.Options{})
	f.options.Config.QueueAttempts, f.options.Config.QueueBackoff = 1, time.Millisecond
	f.options.CreditWait = time.Millisecond
	f.start(t)
	submit(t, f, 0, 1)
	q.set(errors.New("disk full"), errors.New("disk full"))
	f.tokens.Refuse(&transport.Refusal{Code: protocol.RefusedIdentity, Label: transport.LabelPodForeign, Reason: "of another flow", RetryAfter: time.Millisecond})
	c := newCrew()
	for _, uid := range []string{"a", "b", "c"} {
		c.join(t, f, uid, succeed)
	}
	eventually(t, "much has gone wrong", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		job := jobNamed("late")
		if _, err := f.producer.Submit(ctx, job, endpoint.Digest(job)); err != nil {
			tries.Add(1)
		}
		refusals.Store(int64(f.stats(t).Refused[transport.LabelPodForeign]))
		return tries.Load() > 100 && refusals.Load() > 10
	})
	if n := lines.Load(); n > 5 {
		t.Errorf("%d lines for %d failed submissions and %d refused workers", n, tries.Load(), refusals.Load())
	}
}
