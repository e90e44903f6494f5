package trial

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func fakeTrial(t *testing.T, flaw string, mode Mode) Trial {
	t.Helper()
	for _, s := range fakes() {
		if s.Name() == flaw {
			return Trial{
				System: s, Dir: t.TempDir(), Warm: 50 * time.Millisecond, Measure: 200 * time.Millisecond,
				Stage: Stage{Mode: mode, PayloadBytes: 64, Workers: 3, Window: 50, Rate: 500},
			}
		}
	}
	t.Fatalf("there is no fake that %s", flaw)
	return Trial{}
}

func TestTrialMeasures(t *testing.T) {
	for _, mode := range []Mode{Flood, Paced, Single} {
		figures, err := fakeTrial(t, "none", mode).Run(t.Context())
		if err != nil {
			t.Errorf("%s: %v", mode, err)
			continue
		}
		if figures.JobsPerSecond <= 0 || figures.Jobs == 0 {
			t.Errorf("%s: nothing was measured: %+v", mode, figures)
		}
		if timed := figures.P50 > 0 && figures.P99 >= figures.P50; timed != (mode != Flood) {
			t.Errorf("%s: p50 %s, p99 %s", mode, figures.P50, figures.P99)
		}
	}
}

// A system that does not hand on each job once, as it was, has no figures.
func TestTrialFailsAFlawedSystem(t *testing.T) {
	defer func(was time.Duration) { drainLimit = was }(drainLimit)
	drainLimit = 2 * time.Second
	for flaw, want := range map[string]string{
		"loses":   "job 7 is the first that was lost",
		"repeats": "handled more than once",
		"alters":  "bytes that nobody sent",
		"invents": "bytes that nobody sent",
		"refuses": "this system is full",
		"deaf":    "this system cannot start",
		"hangs":   "does not end in order",
	} {
		trial := fakeTrial(t, flaw, Flood)
		figures, err := trial.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a system that %s: error %v, want %q", flaw, err, want)
		}
		if figures != (Figures{}) {
			t.Errorf("a system that %s has figures: %+v", flaw, figures)
		}
		if left, err := os.ReadDir(trial.Dir); err != nil || len(left) > 0 {
			t.Errorf("a system that %s leaves %v behind (%v)", flaw, left, err)
		}
	}
}

func TestTrialEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	trial := fakeTrial(t, "none", Flood)
	trial.Measure = time.Hour
	if _, err := trial.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
}
