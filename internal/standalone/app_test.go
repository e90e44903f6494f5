package standalone

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// shellApp is an app that is a script.
func shellApp(t *testing.T, script string) *app {
	t.Helper()
	screen := &Screen{Out: t.Output()}
	return &app{
		name: "a-0", argv: []string{"/bin/sh", "-c", script}, dir: t.TempDir(), grace: time.Minute, output: screen.output("a-0"),
		guard: testGuard(t), say: screen.warn, clock: clock.RealClock{}, random: func() float64 { return 0 },
	}
}

// start runs the app until the returned function is called.
func start(t *testing.T, a *app) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { a.run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// content is what is in a file of the app, without white space at its ends.
func content(a *app, name string) string {
	raw, _ := os.ReadFile(filepath.Join(a.dir, name)) // not there yet is empty
	return strings.TrimSpace(string(raw))
}

func gone(pid string) bool {
	number, err := strconv.Atoi(pid)
	return err == nil && errors.Is(syscall.Kill(number, 0), syscall.ESRCH)
}

func TestAnAppIsStartedAgain(t *testing.T) {
	a := shellApp(t, "echo x >> starts; exit 3")
	stop := start(t, a)
	defer stop()
	transporttest.Eventually(t, "the app starts three times", func() bool { return strings.Count(content(a, "starts"), "x") >= 3 })
}

// An app that heeds SIGTERM ends by itself, and what it has started does too.
func TestAnAppEndsWithItsGroup(t *testing.T) {
	a := shellApp(t, "trap 'echo bye > bye; exit 0' TERM; sleep 1000 & echo $! > child; wait")
	stop := start(t, a)
	transporttest.Eventually(t, "the app has a child", func() bool { return content(a, "child") != "" })
	stop()
	if content(a, "bye") != "bye" {
		t.Error("the app did not get SIGTERM")
	}
	transporttest.Eventually(t, "the child is gone", func() bool { return gone(content(a, "child")) })
}

func TestADeafAppIsKilled(t *testing.T) {
	a := shellApp(t, "trap '' TERM; echo $$ > self; while :; do sleep 1; done")
	a.grace = time.Millisecond
	stop := start(t, a)
	transporttest.Eventually(t, "the app runs", func() bool { return content(a, "self") != "" })
	stop()
	if !gone(content(a, "self")) {
		t.Error("the app lives on")
	}
}

// When the run ends without a word, as one that is killed, the guard kills what it was told of.
func TestTheGuardKillsWhatIsLeft(t *testing.T) {
	a := shellApp(t, "trap '' TERM HUP; sleep 1000 & echo $! > child; echo $$ > self; wait")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- a.once(ctx) }()
	transporttest.Eventually(t, "the app runs, and the guard knows of it", func() bool { return content(a, "self") != "" && !a.runningSince().IsZero() })
	a.guard.close()
	if err := <-ended; err == nil {
		t.Error("the app has ended well")
	}
	transporttest.Eventually(t, "the app's child is gone", func() bool { return gone(content(a, "child")) })
}

// A guard that is killed is replaced, and the next one knows what is left, whenever the run is killed after that.
func TestAKilledGuardIsReplaced(t *testing.T) {
	a := shellApp(t, "trap '' TERM HUP; sleep 1000 & echo $! > child; echo $$ > self; wait")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- a.once(ctx) }()
	transporttest.Eventually(t, "the app runs", func() bool { return content(a, "self") != "" && !a.runningSince().IsZero() })
	for range 3 {
		before := a.guard.process()
		if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		transporttest.Eventually(t, "another guard is there", func() bool { now := a.guard.process(); return now != 0 && now != before })
	}
	if gone(content(a, "self")) {
		t.Error("the app ended with a guard")
	}
	a.guard.close()
	if err := <-ended; err == nil {
		t.Error("the app has ended well")
	}
	transporttest.Eventually(t, "the app's child is gone", func() bool { return gone(content(a, "child")) })
}
