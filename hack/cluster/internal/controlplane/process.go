package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/workpulling/workpulling/hack/cluster/internal/component"
	"github.com/workpulling/workpulling/hack/cluster/internal/logtail"
)

// grace is how long a process may take to end by itself.
const grace = 5 * time.Second

// process is a running component.
type process struct {
	name   string
	log    string
	cmd    *exec.Cmd
	exited chan struct{} // closed at the end
	err    error         // how it ended; set before exited is closed
}

// start runs the component with its output in dir/<name>.log. The kernel kills it when this process dies: that signal is
// tied to the thread that forked, so the thread stays with the child until its end.
func start(c component.Component, dir string) (*process, error) {
	p := &process{name: c.Name, log: filepath.Join(dir, c.Name+".log"), exited: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", c.Name, err)
	}
	p.cmd = exec.Command(c.Args[0], c.Args[1:]...)
	p.cmd.Dir, p.cmd.Env = dir, append(os.Environ(), c.Env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// A group of its own: Ctrl-C in a terminal reaches this process alone, which then ends the others in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer log.Close()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Name, err)
	}
	return p, nil
}

// stop asks, waits, and forces.
func (p *process) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(grace):
		p.cmd.Process.Kill()
		<-p.exited
	}
}

// failure describes an end that nobody asked for.
func (p *process) failure() error {
	return fmt.Errorf("%s ended: %v; the end of its log:\n%s", p.name, p.err, logtail.Of(p.log))
}
