package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/workpulling/workpulling/examples/tutorials/bed"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

func TestMain(m *testing.M) { bed.Main(m, main) }

// recorded counts the whole lines of a journal by MessageID.
func recorded(t *testing.T, path string) map[string]int {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	ids := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		if id, _, ok := strings.Cut(line, " "); ok && strings.HasSuffix(line, "\n") {
			ids[id]++
		}
	}
	return ids
}

func payload(int) string { return "an-order" }

// Whatever the app is killed at, a job that is confirmed is in the journal.
func TestWhatIsConfirmedIsOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	flow, app := bed.Start(t), bed.Serve(t, "-journal", path)
	ids := flow.Submit(false, bed.Payloads(100, payload))
	flow.Work("worker", app.Port())
	for _, mark := range []int{15, 45, 75} {
		transporttest.Eventually(t, "some jobs are written", func() bool { return len(recorded(t, path)) >= mark })
		app.Kill()
		for _, id := range ids {
			if flow.State(id) == "confirmed" && recorded(t, path)[id] == 0 {
				t.Errorf("%s is confirmed, and not in the journal", id)
			}
		}
		app.Restart()
	}
	flow.Await("confirmed", ids)
	journal := recorded(t, path)
	for _, id := range ids {
		if journal[id] == 0 {
			t.Errorf("%s is confirmed, and not in the journal", id)
		}
	}
	if len(journal) != len(ids) {
		t.Errorf("%d jobs in the journal, %d submitted", len(journal), len(ids))
	}
}

// A job whose answer is lost is done twice. That is the price: at least once.
func TestLostAnswerBringsTheJobAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	flow, app := bed.Start(t), bed.Serve(t, "-journal", path)
	flow.Work("worker", app.LossyPort())
	app.Lossy.CutAt(3, true) // the third job is written, and its answer is lost
	ids := flow.Submit(false, bed.Payloads(5, payload))
	flow.Await("confirmed", ids)
	lines := 0
	for id, n := range recorded(t, path) {
		lines += n
		if n > 2 {
			t.Errorf("%s is there %d times", id, n)
		}
	}
	if lines != len(ids)+1 {
		t.Errorf("%d lines for %d jobs, one of them twice", lines, len(ids))
	}
}

// The mistake: jobs that were confirmed are gone with the app.
func TestAnsweringFirstLosesJobs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	flow, app := bed.Start(t), bed.Serve(t, "-journal", path, "-answer-first")
	flow.Work("worker", app.Port())
	ids := flow.Submit(true, bed.Payloads(10, payload))
	flow.Await("confirmed", ids)
	app.Kill()
	app.Restart()
	journal := recorded(t, path)
	for _, id := range ids {
		if journal[id] > 0 {
			t.Errorf("%s is in the journal: the mistake does no harm", id)
		}
	}
	flow.Await("confirmed", ids) // and nobody will bring them back
}
