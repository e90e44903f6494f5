package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/transport"
)

// Whatever the queue does, each submission has an answer within what all attempts of a write may take, on every way into the flow; and
// what the flow has stored all the same is acknowledged in the end, though nobody waits any more.
func TestEverySubmissionIsAnsweredInTime(t *testing.T) {
	gone := errors.New("connection refused")
	for name, fail := range map[string]func(q *faultyQueue) (heal func()){
		"hanging": func(q *faultyQueue) func() {
			hold := make(chan struct{})
			q.block(hold)
			return func() {
				q.block(nil)
				close(hold)
			}
		},
		"refusing connections": func(q *faultyQueue) func() {
			q.set(gone, gone)
			return func() { q.set(nil, nil) }
		},
		"writing nothing": func(q *faultyQueue) func() { // loads work all the time
			q.set(gone, nil)
			return func() { q.set(nil, nil) }
		},
		"full": func(q *faultyQueue) func() {
			q.set(fmt.Errorf("%w: no space left", queue.ErrFull), nil)
			return func() { q.set(nil, nil) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := &faultyQueue{WorkQueue: memoryQueue(t)}
			f := newFlow(t, q)
			f.options.OperationTimeout, f.options.Config.QueueAttempts = 200*time.Millisecond, 2
			f.start(t)
			peer := f.peer(t, "user:alice")
			client := endpoint.NewClient(endpoint.ClientOptions{
				Dial:       endpoint.DialProducerPeer(func() transport.Peer { return peer }),
				CreditWait: 300 * time.Millisecond, AnswerWait: 500 * time.Millisecond,
			})
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = client.Run(ctx)
			}()
			t.Cleanup(func() {
				cancel()
				<-ended
			})
			takes := func(to interface{ Post(endpoint.Submission) }, id int) bool {
				var one replies
				post(to, &one, id, 1)
				eventually(t, "an answer", func() bool { return one.stored.Load()+one.failed.Load() == 1 })
				return one.stored.Load() == 1
			}
			eventually(t, "both ways are open", func() bool { return takes(f.producer, 0) && takes(client, 1) })

			heal := fail(q)
			var answers replies
			began := time.Now()
			post(f.producer, &answers, 10, 20)
			post(client, &answers, 30, 20)
			eventually(t, "all have an answer", func() bool { return answers.stored.Load()+answers.failed.Load() == 40 })
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the answers took %s", took)
			}
			if n := answers.stored.Load(); n > 0 {
				t.Errorf("%d were told stored", n)
			}

			heal()
			eventually(t, "the flow takes jobs again", func() bool { return takes(f.producer, 100) && takes(client, 101) })
			eventually(t, "nothing waits to be acknowledged", func() bool {
				orphans, err := q.WorkQueue.(queue.OrphanKeeper).ListOrphans(t.Context(), time.Now().Add(time.Hour), 0, 100)
				return err == nil && len(orphans) == 0
			})
		})
	}
}
