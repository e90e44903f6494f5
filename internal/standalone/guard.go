package standalone

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
)

// Guard is the program that outlives a run by a moment. It reads process groups from in, "+4711" for one that began and "-4711" for one that
// ended, and kills those that are left when in ends: also a run that was killed itself leaves no app behind.
func Guard(in io.Reader) error {
	groups := map[int]bool{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		group, err := strconv.Atoi(lines.Text())
		switch {
		case err != nil:
			return fmt.Errorf("reading process groups: %w", err)
		case group > 1:
			groups[group] = true
		default:
			delete(groups, -group)
		}
	}
	for group := range groups {
		kill(group, syscall.SIGKILL)
	}
	return lines.Err()
}

// kill sends a signal to a process group. One that is gone has what it needs.
func kill(group int, signal syscall.Signal) { _ = syscall.Kill(-group, signal) }

// guard is the guard process of this run.
type guard struct {
	command *exec.Cmd
	ended   chan struct{}

	mu   sync.Mutex
	pipe io.WriteCloser
}

// startGuard starts it in a session of its own, where neither the terminal's signals nor those to this process group reach it.
func startGuard(argv []string) (*guard, error) {
	if len(argv) == 0 {
		return nil, errors.New("no guard program is named")
	}
	command := exec.Command(argv[0], argv[1:]...)
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("preparing the guard of the apps: %w", err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting the guard of the apps: %w", err)
	}
	g := &guard{command: command, pipe: pipe, ended: make(chan struct{})}
	go func() {
		defer close(g.ended)
		_ = command.Wait() // how it ended changes nothing
	}()
	return g, nil
}

// began and end tell of a process group. After an error the guard is gone, and so is its protection.
func (g *guard) began(group int) error { return g.tell(group) }
func (g *guard) end(group int)         { _ = g.tell(-group) }

func (g *guard) tell(group int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, err := fmt.Fprintf(g.pipe, "%+d\n", group); err != nil {
		return fmt.Errorf("the guard of the apps is gone: they would outlive this run if it were killed: %w", err)
	}
	return nil
}

// close lets the guard end, which kills what is left.
func (g *guard) close() {
	g.mu.Lock()
	g.pipe.Close()
	g.mu.Unlock()
	<-g.ended
}
