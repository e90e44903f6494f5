package standalone

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"k8s.io/utils/clock"
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

// guard sees to it that a guard process knows the process groups of this run, whatever becomes of that process: one that ends is replaced.
type guard struct {
	argv  []string
	say   func(format string, args ...any)
	clock clock.Clock
	ended chan struct{}
	stop  chan struct{}
	once  sync.Once

	mu     sync.Mutex
	groups map[int]bool
	pipe   *os.File // nil while there is no process
	pid    int
}

// startGuard starts the first process; say hears of those that end too early.
func startGuard(argv []string, clk clock.Clock, say func(format string, args ...any)) (*guard, error) {
	if len(argv) == 0 {
		return nil, errors.New("no guard program is named")
	}
	g := &guard{argv: argv, say: say, clock: clk, ended: make(chan struct{}), stop: make(chan struct{}), groups: map[int]bool{}}
	command, err := g.start()
	if err != nil {
		return nil, err
	}
	go g.keep(command)
	return g, nil
}

// start starts a process in a session of its own, where neither the terminal's signals nor those to this process group reach it. It finds the
// groups that there are in its pipe, whenever this process ends.
func (g *guard) start() (*exec.Cmd, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("preparing the guard of the apps: %w", err)
	}
	defer read.Close()
	for group := range g.groups {
		_, err = fmt.Fprintf(write, "%+d\n", group)
	}
	command := exec.Command(g.argv[0], g.argv[1:]...)
	command.Stdin = read
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err = errors.Join(err, command.Start()); err != nil {
		write.Close()
		return nil, fmt.Errorf("starting the guard of the apps: %w", err)
	}
	g.pipe, g.pid = write, command.Process.Pid
	return command, nil
}

// keep replaces each process that ends, until close.
func (g *guard) keep(command *exec.Cmd) {
	defer close(g.ended)
	for {
		began := g.clock.Now()
		err := command.Wait()
		g.lost()
		if g.stopped(g.clock.Since(began) < guardPause) {
			return
		}
		g.say("the guard of the apps %s; starting another one", describe(err))
		for command, err = g.start(); err != nil; command, err = g.start() {
			g.say("%v; trying again", err)
			if g.stopped(true) {
				return
			}
		}
	}
}

// lost notes that there is no process.
func (g *guard) lost() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pipe.Close()
	g.pipe, g.pid = nil, 0
}

// stopped says whether close was called, after a pause if there is to be one.
func (g *guard) stopped(pause bool) bool {
	if pause {
		select {
		case <-g.stop:
		case <-g.clock.After(guardPause):
		}
	}
	select {
	case <-g.stop:
		return true
	default:
		return false
	}
}

// guardPause is between two starts of guards that end at once.
const guardPause = 250 * time.Millisecond

// began and end tell of a process group.
func (g *guard) began(group int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups[group] = true
	g.tell(group)
}

func (g *guard) end(group int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groups, group)
	g.tell(-group)
}

// tell writes to the process that there is. One that is gone needs no word: the next is told everything.
func (g *guard) tell(group int) {
	if g.pipe != nil {
		_, _ = fmt.Fprintf(g.pipe, "%+d\n", group)
	}
}

// process is the id of the guard process, 0 while there is none.
func (g *guard) process() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pid
}

// close lets the guard end, which kills what is left.
func (g *guard) close() {
	g.once.Do(func() { close(g.stop) })
	g.mu.Lock()
	if g.pipe != nil {
		g.pipe.Close()
	}
	g.mu.Unlock()
	<-g.ended
}
