package main

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func started(id, message string) Execution {
	return Execution{ID: id, MessageID: message, EventID: message, Source: "/s", Worker: "w-" + id, Attempt: 1}
}

func finished(id, message string) Execution {
	run := started(id, message)
	run.Analysis = &Analysis{Bytes: 3, Lines: 1, Words: 1, SHA256: "x"}
	return run
}

func record(t *testing.T, l *ledger, runs ...Execution) {
	t.Helper()
	for _, run := range runs {
		if err := l.record(run); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLedgerCountsExecutionsOncePerID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "effects")
	l, err := openLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	record(t, l,
		started("1", "a"), finished("1", "a"), finished("1", "a"), // the answer was lost and the report repeated
		started("2", "a"), finished("2", "a"), // delivered again
		started("3", "b"), // its worker was killed
	)
	want := []Effect{
		{MessageID: "a", EventID: "a", Source: "/s", Started: 2, Finished: 2, Worker: "w-1", Analysis: &Analysis{Bytes: 3, Lines: 1, Words: 1, SHA256: "x"}},
		{MessageID: "b", EventID: "b", Source: "/s", Started: 1},
	}
	if diff := cmp.Diff(want, l.list("/s")); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Summary{Jobs: 2, Effects: 1, Started: 3, Finished: 2}, l.summary("/s")); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Summary{}, l.summary("/other")); diff != "" {
		t.Errorf("summary of another source (-want +got):\n%s", diff)
	}
	again, err := openLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, again.list("")); diff != "" {
		t.Errorf("effects after a restart (-want +got):\n%s", diff)
	}
}

func TestLedgerDropsATornLastLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "effects")
	l, err := openLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	record(t, l, finished("1", "a"))
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"id":"2","mess`); err != nil {
		t.Fatal(err)
	}
	again, err := openLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	record(t, again, finished("3", "b"))
	last, err := openLedger(path)
	if err != nil {
		t.Fatalf("the line after the torn one is damaged: %v", err)
	}
	if got := last.summary(""); got.Effects != 2 {
		t.Errorf("effects = %d, want 2", got.Effects)
	}
}

func TestLedgerRefusesDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "effects")
	if err := os.WriteFile(path, []byte("{\"id\":\n{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openLedger(path); err == nil {
		t.Error("a damaged line in the middle was passed over")
	}
}

func TestLedgerIsSafeForManyWorkers(t *testing.T) {
	l, err := openLedger(filepath.Join(t.TempDir(), "effects"))
	if err != nil {
		t.Fatal(err)
	}
	var workers sync.WaitGroup
	for _, id := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
		workers.Go(func() {
			for _, message := range []string{"a", "b", "c", "d"} {
				if err := l.record(finished(id, message)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	if diff := cmp.Diff(Summary{Jobs: 4, Effects: 4, Started: 32, Finished: 32}, l.summary("")); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}
