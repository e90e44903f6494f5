package local_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/local"
	"github.com/workpulling/workpulling/runtime/queue/queuetest"
)

const seedVariable = "WORKPULLING_LOCAL_QUEUE_SEED"

func init() { children["historian"] = historianChild }

// historianChild lets clients loose on the queue until it is killed, and writes each event as a line of JSON before it goes on.
func historianChild() {
	ctx := context.Background()
	seed, err := strconv.ParseUint(os.Getenv(seedVariable), 10, 64)
	if err != nil {
		fatal(err)
	}
	q, err := local.Open(ctx, childOptions())
	if err != nil {
		fatal(err)
	}
	w := queuetest.Workload{Seed: seed, Clients: 5, Steps: 1000, Impatient: 3}
	w.Run(ctx, []queue.WorkQueue{q}, func(e queuetest.Event) {
		line, err := json.Marshal(e)
		if err != nil {
			fatal(err)
		}
		report("%s", line)
	})
}

// What the clients of a queue see is linearizable, over processes that are killed at any moment and start again (G-120, B-022…B-026).
func TestLinearizableOverKills(t *testing.T) {
	seed := queuetest.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range 4 {
		dir, history := t.TempDir(), []queuetest.Event(nil)
		kills := 3 + random.IntN(3)
		for range kills {
			more := historyUntilKilled(t, dir, round%2*3, random.Uint64(), 10+random.IntN(50), time.Duration(random.IntN(500))*time.Microsecond)
			history = queuetest.Renumber(history, more)
		}
		if err := queuetest.CheckHistory(history); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d kills, %d events, %d operations without an answer", kills, len(history), queuetest.Unknown(history))
	}
}

// historyUntilKilled runs a child and kills it some time after a number of events.
func historyUntilKilled(t *testing.T, dir string, rows int, seed uint64, lines int, delay time.Duration) (events []queuetest.Event) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=historian", dirVariable+"="+dir, fmt.Sprintf("%s=%d", seedVariable, seed),
		fmt.Sprintf("%s=%d", rowsVariable, rows))
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var kill *time.Timer
	scanner := bufio.NewScanner(output)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var e queuetest.Event
		if err := json.Unmarshal(scanner.Bytes(), &e); err != nil {
			break // the line that the kill cut off, or what the child had to say
		}
		if events = append(events, e); len(events) == lines {
			kill = time.AfterFunc(delay, func() { _ = child.Process.Kill() })
		}
	}
	rest := scanner.Text()
	if err := child.Wait(); err == nil || kill == nil {
		t.Fatalf("the child ended by itself: %v: %s", err, rest)
	}
	return events
}
