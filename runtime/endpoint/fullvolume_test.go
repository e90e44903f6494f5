package endpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// fullVolumeVariable tells a child process of the test that it is the one with the small volume.
const fullVolumeVariable = "WORKPULLING_TEST_FULL_VOLUME"

// A producer over a full volume fails nothing for good: what it cannot store it does not acknowledge, what is stored is worked off, which
// makes room, and with space again every submission that was turned away is stored once under its id. A limit on the size of files
// stands for the full volume; it holds for a whole process, so a child has it.
func TestFullVolumeTurnsAwayAndHeals(t *testing.T) {
	if os.Getenv(fullVolumeVariable) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullVolumeTurnsAwayAndHeals$", "-test.v")
		child.Env = append(os.Environ(), fullVolumeVariable+"=1")
		if output, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	f := newFlow(t, localQueue(t, t.TempDir()))
	f.options.CompactEvery = 50 * time.Millisecond
	f.options.OnFailed = func(failed delivery.Failed) { t.Errorf("failed for good: %+v", failed) }
	f.start(t)
	limitFiles(t, 88<<20) // the journal of the queue ends below

	stored := map[string]bool{}
	job := func(i int) protocol.Job {
		return protocol.Job{MessageID: fmt.Sprintf("large-%03d", i), Payload: bytes.Repeat([]byte{byte(i)}, 512<<10)}
	}
	store := func(i int) error {
		began := time.Now()
		receipt, err := f.producer.Submit(t.Context(), job(i), endpoint.Digest(job(i)))
		if _, full := errors.AsType[*endpoint.QueueFullError](err); full && time.Since(began) > 5*time.Second {
			t.Errorf("job %d was turned away after %s", i, time.Since(began))
		}
		if err == nil {
			stored[job(i).MessageID] = true
			receipt.Acknowledge()
		}
		return err
	}
	turnedAway := -1
	for i, tries := 0, 0; i < 200 && turnedAway < 0; tries++ {
		err := store(i)
		full, isFull := errors.AsType[*endpoint.QueueFullError](err)
		switch {
		case err == nil:
			i++
		case !errors.Is(err, endpoint.ErrUnavailable) || tries > 400:
			t.Fatalf("storing on a full volume: %v", err)
		case isFull && full.RetryAfter <= 0:
			t.Fatal("nobody is told when to come back")
		case isFull:
			turnedAway = i
		default: // a volume that is slow is not full yet
		}
	}
	if turnedAway < 5 {
		t.Fatalf("job %d was turned away: the limit was not met as planned", turnedAway)
	}
	before := f.stats(t)
	if !before.QueueFull || before.QueueAvailable || before.QueueMessage == "" {
		t.Errorf("the figures do not tell of the queue: full %v, available %v, %q", before.QueueFull, before.QueueAvailable, before.QueueMessage)
	}

	c := newCrew()
	c.join(t, f, "w0", func(_ context.Context, d protocol.Delivery) endpoint.Result {
		if len(d.Job.Payload) != 512<<10 || d.Job.MessageID != job(int(d.Job.Payload[0])).MessageID {
			t.Errorf("%s came with other bytes", d.Job.MessageID)
		}
		return endpoint.Result{Outcome: protocol.Confirmed}
	})
	eventually(t, "what is stored is worked off", func() bool { return c.finished() >= len(stored) })

	if now := f.stats(t); now.Session != before.Session {
		t.Error("the queue was loaded anew")
	}
	limitFiles(t, 1<<30)
	eventually(t, "the figures tell of the room before anybody submits", func() bool { return f.stats(t).QueueAvailable })
	eventually(t, "what was turned away is stored", func() bool { return store(turnedAway) == nil })
	f.settled(t)
	c.check(t, len(stored))
	if n := c.repeats(); n > 0 {
		t.Errorf("%d jobs ran again", n)
	}
	if s := f.stats(t); s.Failure != nil || !s.QueueAvailable {
		t.Errorf("failure %v, available %v: %s", s.Failure, s.QueueAvailable, s.QueueMessage)
	}
}

func limitFiles(t *testing.T, bytes uint64) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = min(bytes, limit.Max)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
}
