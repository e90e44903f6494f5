package standalone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/utils/clock"
)

// Waits between the end of an app and its next start. They double, with a jitter, and begin anew after an app that ran for steady.
const (
	firstRestart = 250 * time.Millisecond
	lastRestart  = 10 * time.Second
	steady       = 10 * time.Second
)

// pipePatience is how long the output of an app is read on after its end, if something else still holds its pipe.
const pipePatience = time.Second

// app is the app of one replica: a child process that is started again whenever it ends.
type app struct {
	name          string
	argv, environ []string
	dir           string
	port          int // 0 where no port is watched
	grace         time.Duration
	output        io.Writer
	guard         *guard
	say           func(format string, args ...any)
	clock         clock.Clock
	random        func() float64

	since atomic.Pointer[time.Time] // nil while the app does not run
}

// runningSince is when the app that runs was started; zero while none does.
func (a *app) runningSince() time.Time {
	if since := a.since.Load(); since != nil {
		return *since
	}
	return time.Time{}
}

// run keeps the app running until ctx ends, and then ends it: SIGTERM, grace, SIGKILL, each to all of its process group.
func (a *app) run(ctx context.Context) {
	wait := firstRestart
	for {
		began := a.clock.Now()
		err := a.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if a.clock.Since(began) >= steady {
			wait = firstRestart
		}
		pause := time.Duration(float64(wait) * (0.75 + a.random()/2))
		a.say("%s: the app %s; starting it again in %s", a.name, describe(err), pause.Round(time.Millisecond))
		select {
		case <-ctx.Done():
			return
		case <-a.clock.After(pause):
		}
		wait = min(2*wait, lastRestart)
	}
}

// once runs the app until it ends, or ctx does.
func (a *app) once(ctx context.Context) error {
	if a.port != 0 && !free(a.port) {
		return errPortTaken
	}
	command := exec.Command(a.argv[0], a.argv[1:]...)
	command.Dir, command.Env = a.dir, a.environ
	command.Stdout, command.Stderr = a.output, a.output
	command.WaitDelay = pipePatience
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		return fmt.Errorf("could not be started: %w", err)
	}
	group := command.Process.Pid
	a.guard.began(group) // first of all: until then nobody ends the app if this process is killed
	began := a.clock.Now()
	a.since.Store(&began)
	defer a.since.Store(nil)
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	defer a.guard.end(group)
	defer kill(group, syscall.SIGKILL) // what the app has left behind
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	kill(group, syscall.SIGTERM)
	select {
	case err := <-ended:
		return err
	case <-a.clock.After(a.grace):
	}
	a.say("%s: the app did not end within %s of SIGTERM: killing it", a.name, a.grace)
	kill(group, syscall.SIGKILL)
	return <-ended
}

// describe says how an app ended, to go on with "the app".
func describe(err error) string {
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return "ended"
	case exited && exit.ExitCode() < 0:
		return "was ended by " + exit.String() // "signal: killed"
	case exited:
		return fmt.Sprintf("ended with exit code %d", exit.ExitCode())
	}
	return err.Error()
}
