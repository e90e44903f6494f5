package memory_test

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/flowtest"
	"github.com/workpulling/workpulling/runtime/queue/memory"
	"github.com/workpulling/workpulling/runtime/queue/queuetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var backend = queuetest.Backend{Volatile: true, New: func(_ testing.TB, options queuetest.Options) queuetest.Place {
	return queuetest.Place{Open: func(string) (queue.WorkQueue, error) {
		return memory.New(memory.Options{DeduplicationWindow: options.DeduplicationWindow, Clock: options.Clock})
	}}
}}

func TestContract(t *testing.T) { queuetest.Run(t, backend) }

// The contract does not depend on what the hashes of ids are.
func TestContractWhenIDsShareOneHash(t *testing.T) {
	queuetest.Run(t, queuetest.Backend{Volatile: true, New: func(t testing.TB, options queuetest.Options) queuetest.Place {
		return queuetest.Place{Open: func(string) (queue.WorkQueue, error) {
			q, err := memory.New(memory.Options{DeduplicationWindow: options.DeduplicationWindow, Clock: options.Clock})
			if err != nil {
				return nil, err
			}
			memory.ShareHashes(q, 0)
			return q, nil
		}}
	}})
}

func TestFlow(t *testing.T) { flowtest.Run(t, backend) }

// A process that ended lost its unsettled jobs; the next one says how many, and so do all that follow.
func TestLossFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "loss")
	for process, want := range []int64{0, 2, 4, 6} {
		q, err := memory.New(memory.Options{LossFile: path})
		if err != nil {
			t.Fatal(err)
		}
		state, epoch, err := q.Load(t.Context(), "owner", func(queue.Row) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if state.Lost != want {
			t.Errorf("process %d: lost %d, want %d", process, state.Lost, want)
		}
		settleOneOfThree(t, q, epoch)
		if process%2 == 0 { // an odd process is killed
			if err := q.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func settleOneOfThree(t *testing.T, q *memory.Queue, epoch queue.Epoch) {
	t.Helper()
	var b queue.Batch
	for _, id := range []string{"a", "b", "c"} {
		var request queue.StoreRequest
		request.Job.MessageID, request.Job.Payload = id, []byte("x")
		b.Stores = append(b.Stores, request)
	}
	b.Confirms = []queue.JobRef{{MessageID: "b", StoreSeq: 2}}
	b.DeadLetters = []queue.DeadLetterRequest{{JobRef: queue.JobRef{MessageID: "c", StoreSeq: 3}}}
	if _, err := q.Apply(t.Context(), epoch, b); err != nil {
		t.Fatal(err)
	}
}
