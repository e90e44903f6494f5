package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/test/prober"
)

// started runs a program that does nothing, until the test ends.
func started(t *testing.T) *container {
	t.Helper()
	c := runContainer("sleep", command{program: "/bin/sleep", args: []string{"600"}, log: filepath.Join(t.TempDir(), "log")}, func(_, end string) {
		t.Errorf("it ended by itself: %s", end)
	})
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	})
	transporttest.Eventually(t, "it is started", up(c, 1))
	return c
}

// up says whether a program is up for the nth time.
func up(c *container, starts int) func() bool {
	return func() bool {
		pid, n := c.running()
		return pid != 0 && n == starts
	}
}

func TestPausesThatOverlapEndWithTheLast(t *testing.T) {
	c := started(t)
	pid, _ := c.running()
	in := func(state string) func() bool {
		return func() bool {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			return err == nil && strings.Contains(string(text), "State:\t"+state)
		}
	}
	short, long := make(chan struct{}), make(chan struct{})
	var pauses sync.WaitGroup
	for _, over := range []chan struct{}{short, long} {
		pauses.Go(func() {
			if hit, err := c.pause(over); !hit || err != nil {
				t.Errorf("paused %t, error %v", hit, err)
			}
		})
	}
	ended := func(n int) func() bool {
		return func() bool {
			_, pauses := c.past()
			return len(pauses) == 2 && len(slices.DeleteFunc(pauses, func(s prober.Span) bool { return s.To == 0 })) == n
		}
	}
	transporttest.Eventually(t, "both have begun", ended(0))
	transporttest.Eventually(t, "it stands still", in("T"))
	close(short)
	transporttest.Eventually(t, "one is over", ended(1))
	if !in("T")() || !c.held() {
		t.Error("it goes on before the second pause is over")
	}
	close(long)
	pauses.Wait()
	transporttest.Eventually(t, "it goes on", in("S"))
	if c.held() {
		t.Error("it is paused still")
	}
}

func TestAKilledContainerStaysDownUntilItIsWantedBack(t *testing.T) {
	c := started(t)
	if hit, err := c.kill(); !hit || err != nil {
		t.Fatalf("killed %t, error %v", hit, err)
	}
	transporttest.Eventually(t, "it is started again", up(c, 2))
	back := make(chan struct{})
	if hit, err := c.killUntil(back); !hit || err != nil {
		t.Fatalf("killed %t, error %v", hit, err)
	}
	transporttest.Eventually(t, "it is down", func() bool {
		pid, _ := c.running()
		return pid == 0
	})
	if hit, err := c.kill(); hit || err != nil {
		t.Errorf("killed while it is down: %t, error %v", hit, err)
	}
	if _, starts := c.running(); starts != 2 {
		t.Errorf("it was started %d times", starts)
	}
	close(back)
	transporttest.Eventually(t, "it is wanted back and started", up(c, 3))
	if lives, _ := c.past(); len(lives) != 3 || lives[0].To == 0 || lives[1].To == 0 || lives[2].To != 0 {
		t.Errorf("its lives are %v", lives)
	}
}
