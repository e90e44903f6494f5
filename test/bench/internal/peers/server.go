package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// server is a program that runs beside, in a process group of its own.
type server struct {
	command *exec.Cmd
	exited  chan error
}

// startServer starts a program; what it says goes to the log of this process.
func startServer(command *exec.Cmd) (*server, error) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", command.Path, err)
	}
	s := &server{command: command, exited: make(chan error, 1)}
	go func() { s.exited <- command.Wait() }()
	return s, nil
}

// answers asks until there is an answer.
func (s *server) answers(ctx context.Context, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case end := <-s.exited:
			s.exited <- end
			return fmt.Errorf("%s ended: %w", s.command.Path, errors.Join(end, err))
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w", s.command.Path, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stop ends the server and its children at once: nobody needs its data any more.
func (s *server) stop() error {
	if err := syscall.Kill(-s.command.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("ending %s: %w", s.command.Path, err)
	}
	if _, killed := errors.AsType[*exec.ExitError](<-s.exited); !killed {
		return fmt.Errorf("%s had ended by itself", s.command.Path)
	}
	return nil
}
