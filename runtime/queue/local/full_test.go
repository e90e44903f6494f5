package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/local"
)

func init() { children["starved"] = starvedChild }

// A disk without space is a retriable error that loses nothing and heals as soon as there is space. A limit on the size of
// files stands for the full disk; it holds for a whole process, so a child has it.
func TestDiskFull(t *testing.T) {
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=starved", dirVariable+"="+t.TempDir())
	if output, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}

func starvedChild() {
	signal.Ignore(syscall.SIGXFSZ)
	ctx := context.Background()
	options := local.Options{Dir: os.Getenv(dirVariable), FlowUID: "uid-1"}
	q, err := local.Open(ctx, options)
	if err != nil {
		fatal(err)
	}
	_, epoch, err := q.Load(ctx, "child", func(queue.Row) error { return nil })
	if err != nil {
		fatal(err)
	}
	const large = 1 << 20
	cursor := int64(0)
	store := func() error {
		b := queue.Batch{Cursor: cursor, Stores: []queue.StoreRequest{request(fmt.Sprintf("job-%d", cursor+1), make([]byte, large))}}
		result, err := q.Apply(ctx, epoch, b)
		if err == nil {
			cursor = result.Cursor
		}
		return err
	}
	limitFiles(96 << 20) // the journal has its place below
	failures := 0
	for failures < 5 && cursor < 200 {
		if err := store(); err != nil {
			failures++
			if errors.Is(err, queue.ErrConflict) || errors.Is(err, queue.ErrFenced) {
				fatal(fmt.Errorf("a full disk is not retriable: %w", err))
			}
		}
	}
	if failures == 0 || cursor < 10 {
		fatal(fmt.Errorf("%d jobs and %d failures: the limit was not met as planned", cursor, failures))
	}
	if err := count(ctx, q, cursor); err != nil {
		fatal(fmt.Errorf("while full: %w", err))
	}
	// Settling frees space inside the file, so a full disk can be worked off.
	for seq := range int64(3) {
		refs := []queue.JobRef{{MessageID: fmt.Sprintf("job-%d", seq+1), StoreSeq: seq + 1}}
		if _, err := q.Apply(ctx, epoch, queue.Batch{Accepts: refs, Confirms: refs}); err != nil {
			fatal(fmt.Errorf("confirming on a full disk: %w", err))
		}
	}
	if err := store(); err != nil {
		fatal(fmt.Errorf("storing into freed space: %w", err))
	}
	limitFiles(256 << 20)
	for range 20 {
		if err := store(); err != nil {
			fatal(fmt.Errorf("with space again: %w", err))
		}
	}
	if err := q.Close(); err != nil {
		fatal(err)
	}
	if q, err = local.Open(ctx, options); err != nil {
		fatal(err)
	}
	if err := count(ctx, q, cursor-3); err != nil {
		fatal(fmt.Errorf("after a restart: %w", err))
	}
}

func limitFiles(bytes uint64) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		fatal(err)
	}
	limit.Cur = bytes
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		fatal(err)
	}
}

// count reads every unsettled job without a Load's new epoch: the visitor gives up at the end.
func count(ctx context.Context, q *local.Queue, want int64) error {
	done, n := errors.New("counted"), int64(0)
	_, _, err := q.Load(ctx, "count", func(r queue.Row) error {
		jobs, err := q.ReadJobs(ctx, []int64{r.StoreSeq})
		if err != nil || len(jobs[0].Payload) != r.PayloadBytes {
			return fmt.Errorf("job %d: %w", r.StoreSeq, err)
		}
		if n++; n == want {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		return fmt.Errorf("%d jobs, want %d: %w", n, want, err)
	}
	return nil
}
