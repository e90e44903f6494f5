package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// The test's program is also the child of its trials.
func TestMain(m *testing.M) {
	if played, err := trial.RunChild(systems()); played {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// Every system hands each job on once, as it was; what it cannot run without may be missing.
func TestEverySystemWorks(t *testing.T) {
	// Not t.TempDir, which no other user may enter, and a database server runs as another.
	dir, err := os.MkdirTemp("", "bench-test-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Errorf("a trial left something behind: %v", err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // see above
		t.Fatal(err)
	}
	for _, system := range systems() {
		t.Run(system.Name(), func(t *testing.T) {
			if err := system.Available(); err != nil {
				t.Skip(err)
			}
			figures, err := trial.Trial{
				System: system, Dir: dir, Warm: 50 * time.Millisecond, Measure: 200 * time.Millisecond,
				Stage: trial.Stage{Mode: trial.Paced, Rate: 500, PayloadBytes: 300, Workers: 2, Window: 50},
			}.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if figures.Jobs == 0 {
				t.Error("no job was submitted")
			}
		})
	}
}
