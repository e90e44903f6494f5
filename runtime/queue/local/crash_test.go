package local_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/local"
)

func init() { children["busy"] = busyChild }

// busyChild loads, then stores, accepts and confirms from several goroutines until it is killed, and reports on standard
// output, one line each, what was acknowledged: "epoch N", "stored id seq", "accepted id", "confirmed id", "dead id".
func busyChild() {
	ctx := context.Background()
	q, err := local.Open(ctx, childOptions())
	if err != nil {
		fatal(err)
	}
	b := &busy{q: q}
	state, epoch, err := q.Load(ctx, "child", func(r queue.Row) error { b.rows = append(b.rows, r.JobRef); return nil })
	if err != nil {
		fatal(err)
	}
	b.epoch, b.cursor = epoch, state.Cursor
	report("epoch %d", epoch)
	var wg sync.WaitGroup
	wg.Go(b.storeForever)
	for range 3 {
		wg.Go(b.settleForever)
	}
	wg.Wait()
}

func fatal(err error) {
	fmt.Println("failed:", err)
	os.Exit(1)
}

// report writes a line in one system call, so that what was reported was reported whole.
func report(format string, args ...any) {
	if _, err := os.Stdout.WriteString(fmt.Sprintf(format, args...) + "\n"); err != nil {
		os.Exit(1) // the test is gone
	}
}

type busy struct {
	q      *local.Queue
	epoch  queue.Epoch
	cursor int64

	mu   sync.Mutex
	rows []queue.JobRef
}

func (b *busy) storeForever() {
	for n := 0; ; n++ {
		batch := queue.Batch{Cursor: b.cursor}
		for i := range 1 + n%7 {
			id := fmt.Sprintf("e%d-%d-%d", b.epoch, n, i)
			batch.Stores = append(batch.Stores, request(id, payloadOf(id)))
		}
		result, err := b.q.Apply(context.Background(), b.epoch, batch)
		if err != nil {
			fatal(err)
		}
		b.cursor = result.Cursor
		for i, s := range batch.Stores {
			report("stored %s %d", s.Job.MessageID, result.Stores[i].StoreSeq)
			b.mu.Lock()
			b.rows = append(b.rows, queue.JobRef{MessageID: s.Job.MessageID, StoreSeq: result.Stores[i].StoreSeq})
			b.mu.Unlock()
		}
	}
}

func (b *busy) settleForever() {
	for n := 0; ; n++ {
		b.mu.Lock()
		if len(b.rows) == 0 {
			b.mu.Unlock()
			continue
		}
		i := rand.IntN(len(b.rows))
		r := b.rows[i]
		b.rows[i] = b.rows[len(b.rows)-1]
		b.rows = b.rows[:len(b.rows)-1]
		b.mu.Unlock()
		batch, done := queue.Batch{Accepts: []queue.JobRef{r}, Confirms: []queue.JobRef{r}}, "confirmed"
		if n%5 == 0 {
			batch, done = queue.Batch{DeadLetters: []queue.DeadLetterRequest{{JobRef: r, Reason: "test"}}}, "dead"
		}
		if _, err := b.q.Apply(context.Background(), b.epoch, batch); err != nil {
			fatal(err)
		}
		report("%s %s", done, r.MessageID)
	}
}

// payloadOf is different for each id and of very different sizes.
func payloadOf(id string) []byte {
	return bytes.Repeat([]byte(id+";"), 1+len(id)*int(id[len(id)-1]-'0')*7)
}

// history is all that was ever acknowledged.
type history struct {
	epoch  queue.Epoch
	stored map[string]int64
	status map[string]string // "confirmed" and "dead" only
}

// A process that is killed at any moment loses nothing that it acknowledged, and leaves nothing half done (B-022…B-026): neither while all
// is in the journal, nor while that is written to the tree.
func TestKill(t *testing.T) {
	for name, rows := range map[string]int{"in the journal": 0, "in the tree": 16} {
		t.Run(name, func(t *testing.T) { testKill(t, rows) })
	}
}

func testKill(t *testing.T, rows int) {
	rounds, dir := 12, t.TempDir()
	if text := os.Getenv("WORKPULLING_KILLS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatalf("WORKPULLING_KILLS: %v", err)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	all := history{stored: map[string]int64{}, status: map[string]string{}}
	for round := range rounds {
		lines := 1 + random.IntN(60)
		runAndKill(t, dir, rows, lines, time.Duration(random.IntN(3000))*time.Microsecond, &all)
		verify(t, dir, &all)
		if t.Failed() {
			t.Fatalf("failed after kill %d", round+1)
		}
	}
	t.Logf("%d kills, %d jobs, %d settled, epoch %d", rounds, len(all.stored), len(all.status), all.epoch)
}

// runAndKill starts a child, kills it some time after a number of reports, and notes all that it reported.
func runAndKill(t *testing.T, dir string, rows, lines int, delay time.Duration, all *history) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=busy", dirVariable+"="+dir, fmt.Sprintf("%s=%d", rowsVariable, rows))
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var kill *time.Timer
	scanner := bufio.NewScanner(output)
	for n := 0; scanner.Scan(); n++ {
		if n == lines {
			kill = time.AfterFunc(delay, func() { _ = child.Process.Kill() })
		}
		all.note(t, scanner.Text())
	}
	if err := child.Wait(); err == nil || kill == nil {
		t.Fatalf("the child ended by itself: %v", err)
	}
}

func (h *history) note(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	var seq int64
	switch words[0] {
	case "epoch":
		var epoch queue.Epoch
		if _, err := fmt.Sscan(words[1], &epoch); err != nil || epoch <= h.epoch {
			t.Errorf("%q after epoch %d, error %v", line, h.epoch, err)
		}
		h.epoch = epoch
	case "stored":
		if _, err := fmt.Sscan(words[2], &seq); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		h.stored[words[1]] = seq
	case "confirmed", "dead":
		h.status[words[1]] = words[0]
	default:
		t.Fatalf("the child says %q", line)
	}
}

// verify opens the queue and compares it with all that was acknowledged. What was not acknowledged may be there, but whole.
func verify(t *testing.T, dir string, all *history) {
	t.Helper()
	q := open(t, dir)
	rows, state, epoch := load(t, q)
	if epoch <= all.epoch {
		t.Errorf("epoch %d after %d", epoch, all.epoch)
	}
	all.epoch = epoch
	present := map[string]int64{}
	for _, r := range rows {
		present[r.MessageID] = r.StoreSeq
		jobs, err := q.ReadJobs(t.Context(), []int64{r.StoreSeq})
		if err != nil || !bytes.Equal(jobs[0].Payload, payloadOf(r.MessageID)) {
			t.Errorf("the bytes of %s are wrong, error %v", r.MessageID, err)
		}
	}
	highest := int64(0)
	for id, seq := range all.stored {
		highest = max(highest, seq)
		found, ok, err := q.Lookup(t.Context(), id)
		if err != nil || !ok || found.StoreSeq != seq {
			t.Errorf("%s was acknowledged with sequence %d; found %+v, %v, error %v", id, seq, found, ok, err)
			continue
		}
		switch all.status[id] {
		case "confirmed":
			if found.Status != queue.StatusConfirmed || !found.Accepted {
				t.Errorf("%s was acknowledged as confirmed; found %+v", id, found)
			}
		case "dead":
			if found.Status != queue.StatusDeadLettered {
				t.Errorf("%s was acknowledged as dead; found %+v", id, found)
			}
		}
		if found.Status == queue.StatusStored && present[id] != seq {
			t.Errorf("%s is stored but was not loaded", id)
		}
	}
	if state.Cursor < highest {
		t.Errorf("cursor %d below the acknowledged sequence %d", state.Cursor, highest)
	}
	// What was done but not acknowledged counts from now on.
	maps.Copy(all.stored, present)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := bolt.Open(filepath.Join(dir, local.FileName), 0o600, &bolt.Options{ReadOnly: true, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(raw.View(local.Check), raw.Close()); err != nil {
		t.Errorf("the file contradicts itself: %v", err)
	}
}
