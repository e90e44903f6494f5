package queuetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// Call is one operation of a history.
type Call struct {
	Op    string // one of the keys of operations
	Epoch queue.Epoch
	Batch queue.Batch
	Ref   queue.JobRef // of redrive and drop; its id also of lookup
}

// Answer is what a Call came to.
type Answer struct {
	// Unknown means that the operation may have happened, at any moment since its call, or may yet happen, or never.
	Unknown bool
	Refusal string // "", or the contract's error: fenced, conflict, not found
	Result  queue.Result
	Rows    []queue.JobRef
	Epoch   queue.Epoch
	Dead    int64
	Found   bool
	State   queue.JobState
}

// Event is the start or the end of an operation; the order of events is the order in time.
type Event struct {
	Client, Number int
	Call           *Call   // of a start
	Answer         *Answer // of an end
}

// Workload is what the clients of one history do.
type Workload struct {
	Seed    uint64
	Clients int
	Steps   int // of each client
	// Impatient is how many of a hundred calls get a deadline of some milliseconds, which makes many of them end unknown.
	Impatient int
}

// Seed is a random seed, or that of the environment variable QUEUETEST_SEED, to replay what the clients of a history did. Their
// timing is the machine's.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("QUEUETEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("QUEUETEST_SEED: %v", err)
		}
	}
	t.Logf("QUEUETEST_SEED=%d", seed)
	return seed
}

// Run lets the clients loose on the handles of one queue, in turns, and records what they see, until all steps are done or the
// context ends. The first thing that anybody does is a load. Record is called by one goroutine at a time.
func (w Workload) Run(ctx context.Context, handles []queue.WorkQueue, record func(Event)) {
	c := &clients{workload: w, handles: handles, record: record}
	c.step(ctx, 0, rand.New(rand.NewPCG(w.Seed, 0)), Call{Op: "load"})
	var wg sync.WaitGroup
	for client := range w.Clients {
		random := rand.New(rand.NewPCG(w.Seed, uint64(client+1)))
		wg.Go(func() {
			for range w.Steps {
				if ctx.Err() != nil {
					return
				}
				c.step(ctx, client, random, c.draw(random))
			}
		})
	}
	wg.Wait()
}

// clients share what they know, as the controllers of one producer do, so that most of what they ask for is legal.
type clients struct {
	workload Workload
	handles  []queue.WorkQueue
	record   func(Event)

	mu     sync.Mutex
	last   int
	epoch  queue.Epoch
	cursor int64
	refs   []queue.JobRef
}

var historyIDs = numbered("h", 12)

func (c *clients) draw(random *rand.Rand) Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := Call{Epoch: c.epoch, Ref: queue.JobRef{MessageID: historyIDs[random.IntN(len(historyIDs))], StoreSeq: 1}}
	pick := func() queue.JobRef {
		if len(c.refs) == 0 {
			return call.Ref
		}
		return c.refs[random.IntN(len(c.refs))]
	}
	switch n := random.IntN(100); {
	case n < 4:
		call.Op = "load"
	case n < 25:
		call.Op = "lookup"
	case n < 30:
		call.Op, call.Ref = "redrive", pick()
	case n < 35:
		call.Op, call.Ref = "drop", pick()
	default:
		call.Op = "apply"
		call.Batch.Cursor = c.cursor
		for range random.IntN(3) {
			call.Batch.Stores = append(call.Batch.Stores, requestOf(historyIDs[random.IntN(len(historyIDs))]))
		}
		for range random.IntN(2) {
			call.Batch.Accepts = append(call.Batch.Accepts, pick())
			call.Batch.Confirms = append(call.Batch.Confirms, pick())
		}
		if random.IntN(4) == 0 {
			call.Batch.DeadLetters = append(call.Batch.DeadLetters, queue.DeadLetterRequest{JobRef: pick(), Reason: "poison"})
			call.Batch.Attempts = append(call.Batch.Attempts, queue.AttemptRecord{JobRef: pick(), Attempts: random.IntN(5)})
		}
	}
	return call
}

// step does one operation and records its start and its end.
func (c *clients) step(ctx context.Context, client int, random *rand.Rand, call Call) {
	c.mu.Lock()
	c.last++
	number := c.last
	c.record(Event{Client: client, Number: number, Call: &call})
	c.mu.Unlock()

	if random.IntN(100) < c.workload.Impatient {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(5000))*time.Microsecond)
		defer cancel()
	}
	answer := call.do(ctx, c.handles[number%len(c.handles)])
	if answer.Unknown {
		<-time.After(10 * time.Millisecond) // whoever gets no answer waits a moment before he asks again
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.learn(call, answer)
	c.record(Event{Client: client, Number: number, Answer: &answer})
}

func (c *clients) learn(call Call, answer Answer) {
	if answer.Unknown || answer.Refusal != "" {
		return
	}
	c.epoch, c.cursor = max(c.epoch, answer.Epoch), max(c.cursor, answer.Result.Cursor)
	for _, r := range answer.Rows {
		c.know(r)
	}
	for i, s := range answer.Result.Stores {
		c.know(ref(call.Batch.Stores[i].Job.MessageID, s.StoreSeq))
	}
}

func (c *clients) know(r queue.JobRef) {
	if !slices.Contains(c.refs, r) {
		c.refs = append(c.refs, r)
	}
}

func (call Call) do(ctx context.Context, q queue.WorkQueue) (a Answer) {
	var err error
	switch call.Op {
	case "load":
		var state queue.State
		state, a.Epoch, err = q.Load(ctx, "history", func(r queue.Row) error {
			a.Rows = append(a.Rows, r.JobRef)
			return nil
		})
		a.Result.Cursor, a.Dead = state.Cursor, state.DeadLetters
	case "apply":
		a.Result, err = q.Apply(ctx, call.Epoch, call.Batch)
	case "lookup":
		a.State, a.Found, err = q.Lookup(ctx, call.Ref.MessageID)
	case "redrive":
		_, err = q.Redrive(ctx, call.Epoch, call.Ref, "history")
	case "drop":
		err = q.Drop(ctx, call.Epoch, call.Ref, "history")
	}
	if err == nil {
		return a
	}
	for word, refusal := range refusals {
		if errors.Is(err, refusal) {
			return Answer{Refusal: word}
		}
	}
	if errors.Is(err, protocol.ErrInvalid) || errors.Is(err, queue.ErrUnsupportedFormat) {
		return Answer{Refusal: err.Error()} // no legal history has one
	}
	return Answer{Unknown: true}
}

var refusals = map[string]error{"fenced": queue.ErrFenced, "conflict": queue.ErrConflict, "not found": queue.ErrNotFound}

// String is a line for people.
func (e Event) String() string {
	if e.Answer == nil {
		return fmt.Sprintf("%3d client %d: %s epoch %d %v %+v", e.Number, e.Client, e.Call.Op, e.Call.Epoch, e.Call.Ref, e.Call.brief())
	}
	return fmt.Sprintf("%3d answers %+v", e.Number, *e.Answer)
}

func (call Call) brief() string {
	if call.Op != "apply" {
		return ""
	}
	var ids []string
	for _, s := range call.Batch.Stores {
		ids = append(ids, s.Job.MessageID)
	}
	return fmt.Sprintf("cursor %d stores %v accepts %v attempts %v dead %v confirms %v", call.Batch.Cursor, ids,
		call.Batch.Accepts, call.Batch.Attempts, call.Batch.DeadLetters, call.Batch.Confirms)
}
