package member

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Command is the hidden sub-command of this program that calls Run.
const Command = "member"

// configFD is where a member finds the pipe that brings its configuration.
const configFD = 3

// Waiting is a member that was started and waits for its configuration.
type Waiting struct {
	PID  int
	pipe *os.File
}

// Start makes the namespaces of a member, with this very program as first process. Until Configure the member ends if its
// Waiting does.
func Start(log *os.File) (*Waiting, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting a member: %w", err)
	}
	defer read.Close()
	cmd := exec.Command("/proc/self/exe", Command)
	cmd.ExtraFiles = []*os.File{read}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS,
	}
	if err := cmd.Start(); err != nil {
		write.Close()
		return nil, fmt.Errorf("starting a member: %w", err)
	}
	go cmd.Wait() // should it end while we live, it is reaped
	return &Waiting{PID: cmd.Process.Pid, pipe: write}, nil
}

// Configure sets the member to work; it then outlives its starter.
func (w *Waiting) Configure(c Config) error {
	defer w.pipe.Close()
	return c.Send(w.pipe)
}

// Abandon ends a member that was not configured.
func (w *Waiting) Abandon() { w.pipe.Close() }
