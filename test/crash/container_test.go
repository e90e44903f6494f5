package crash

import (
	"path/filepath"
	"testing"

	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

func TestAKilledContainerStaysDownUntilItIsWantedBack(t *testing.T) {
	c := runContainer("sleep", command{program: "/bin/sleep", args: []string{"600"}, log: filepath.Join(t.TempDir(), "log")}, func(_, end string) {
		t.Errorf("it ended by itself: %s", end)
	})
	defer func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	}()
	up := func(starts int) func() bool {
		return func() bool {
			pid, n := c.running()
			return pid != 0 && n == starts
		}
	}
	transporttest.Eventually(t, "it is started", up(1))
	if hit, err := c.kill(); !hit || err != nil {
		t.Fatalf("killed %t, error %v", hit, err)
	}
	transporttest.Eventually(t, "it is started again", up(2))
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
	transporttest.Eventually(t, "it is wanted back and started", up(3))
	if lives, _ := c.past(); len(lives) != 3 || lives[0].To == 0 || lives[1].To == 0 || lives[2].To != 0 {
		t.Errorf("its lives are %v", lives)
	}
}
