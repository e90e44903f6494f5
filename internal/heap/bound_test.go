package heap

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr/testr"

	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

const container = 128 << 20

// fresh puts the collector into the state of a new process, until the end of the test.
func fresh(t *testing.T) {
	t.Helper()
	for _, name := range []string{"GOMEMLIMIT", "AUTOMEMLIMIT", "GOGC"} {
		t.Setenv(name, "") // puts back what was there
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	limit, percent := debug.SetMemoryLimit(math.MaxInt64), debug.SetGCPercent(100)
	t.Cleanup(func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	})
}

// inForce are the settings of the collector.
func inForce() (limit int64, percent int) {
	settings := []metrics.Sample{{Name: "/gc/gomemlimit:bytes"}, {Name: "/gc/gogc:percent"}}
	metrics.Read(settings)
	return int64(settings[0].Value.Uint64()), int(settings[1].Value.Uint64())
}

func TestTheCollectorKnowsTheContainersLimit(t *testing.T) {
	ninety := float64(container) * 0.9
	for name, tc := range map[string]struct {
		gogc     string
		provider memlimit.Provider
		limit    int64
		percent  int
	}{
		"a limit":                {provider: memlimit.Limit(container), limit: int64(ninety), percent: mostGrowth},
		"a limit, and a person":  {gogc: "70", provider: memlimit.Limit(container), limit: int64(ninety), percent: 100},
		"no limit that is known": {provider: func() (uint64, error) { return 0, errors.New("no cgroup file system") }, limit: math.MaxInt64, percent: 100},
	} {
		t.Run(name, func(t *testing.T) {
			fresh(t)
			t.Setenv("GOGC", tc.gogc)
			Bound(testr.New(t), tc.provider)
			if limit, percent := inForce(); limit != tc.limit || percent != tc.percent {
				t.Errorf("limit %d and growth %d %%, want %d and %d %%", limit, percent, tc.limit, tc.percent)
			}
		})
	}
}

func TestAHeapIsCollectedBeforeItTakesHalfOfTheLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		live int64
		want int
	}{
		"nothing":            {live: 0, want: 400},
		"little":             {live: 10 << 20, want: 400},
		"a tenth":            {live: 50 << 20, want: 400},
		"an eighth":          {live: 500 << 20 / 8, want: 300},
		"a quarter":          {live: 125 << 20, want: 100},
		"most":               {live: 450 << 20, want: 100},
		"more than there is": {live: 600 << 20, want: 100},
	} {
		t.Run(name, func(t *testing.T) {
			if got := growth(tc.live, 500<<20); got != tc.want {
				t.Errorf("it grows by %d %%, want %d %%", got, tc.want)
			}
		})
	}
}

// What lives decides how far the heap may grow, up and down, and the limit of the container is above it all.
func TestTheGrowthFollowsWhatLives(t *testing.T) {
	fresh(t)
	Bound(testr.New(t), memlimit.Limit(container))
	settle := func(want int) {
		t.Helper()
		transporttest.Eventually(t, fmt.Sprintf("a growth of %d %%", want), func() bool {
			runtime.GC()
			_, percent := inForce()
			return percent == want
		})
	}
	live := make([]byte, 100<<20)
	settle(leastGrowth)
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	if metrics.Read(goal); goal[0].Value.Uint64() > container {
		t.Errorf("the heap may become %d MiB in a container of %d MiB", goal[0].Value.Uint64()>>20, container>>20)
	}
	runtime.KeepAlive(live)
	settle(mostGrowth)
}
