package crash

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is one running program. The kernel kills it when this process dies, also by kill -9.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	holds  int // pauses that go on, guarded by the container
}

// command says what to run.
type command struct {
	program string
	args    []string
	env     []string // all of it; nothing is inherited
	log     string   // file that both outputs are appended to
}

// startProcess starts a program in a process group of its own, so that a Ctrl-C of the terminal does not reach it.
func startProcess(c command) (*process, error) {
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", c.program, err)
	}
	p := &process{cmd: exec.Command(c.program, c.args...), exited: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = c.env, log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		// The kernel ties the promise to the thread that forked.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer log.Close()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.program, err)
	}
	return p, nil
}

// signal sends a signal; a process that has ended already is no error.
func (p *process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %s to process %d: %w", s, p.pid(), err)
	}
	return nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// end says how an exited process ended, for a person.
func (p *process) end() string { return p.cmd.ProcessState.String() }
