package trial

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Limits of what a child may take.
const (
	readyLimit = 90 * time.Second // a broker that starts on a busy machine
	stopLimit  = 30 * time.Second
)

// process is one child as its parent sees it.
type process struct {
	name  string
	pid   int
	stdin io.WriteCloser
	log   string
	words chan word
	done  chan error // how it ended

	stopped bool // stop was called
}

// spawn starts this program again as a part of a trial, and waits until it is ready.
func spawn(stage *Stage, p Process, at int) (*process, error) {
	text, err := json.Marshal(assignment{*stage, p})
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s-%d", p.Name, at)
	c := &process{name: name, log: filepath.Join(stage.Dir, name+".log"), words: make(chan word, 4), done: make(chan error, 1)}
	command := exec.Command(self) //nolint:noctx // ended by its standard input
	command.Env = append(os.Environ(), assignmentVariable+"="+string(text))
	command.Dir = stage.Dir
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := c.start(command); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	select {
	case w, ok := <-c.words:
		if ok && w.Ready {
			return c, nil
		}
		return nil, c.failed(fmt.Errorf("%s did not start: %s", name, w.Error), c.kill())
	case <-time.After(readyLimit):
		return nil, c.failed(fmt.Errorf("%s is not ready after %s", name, readyLimit), c.kill())
	}
}

// start runs the command on a thread that lives as long as it does: the signal at a parent's death goes by thread.
func (c *process) start(command *exec.Cmd) error {
	log, err := os.Create(c.log)
	if err != nil {
		return err
	}
	command.Stderr = log
	if c.stdin, err = command.StdinPipe(); err != nil {
		return err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer log.Close()
		if err := command.Start(); err != nil {
			started <- err
			return
		}
		c.pid = command.Process.Pid
		started <- nil
		c.listen(stdout)
		c.done <- command.Wait()
	}()
	return <-started
}

func (c *process) listen(stdout io.Reader) {
	defer close(c.words)
	lines := bufio.NewReaderSize(stdout, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		var w word
		if len(line) > 0 && json.Unmarshal(line, &w) == nil {
			c.words <- w
		}
		if err != nil {
			return
		}
	}
}

// stop ends the child in order and returns its last word.
func (c *process) stop() (last word, err error) {
	c.stopped = true
	_ = c.stdin.Close() // it may have ended by itself
	limit := time.AfterFunc(stopLimit, func() { _ = syscall.Kill(-c.pid, syscall.SIGKILL) })
	defer limit.Stop()
	for w := range c.words {
		last = w
	}
	err = <-c.done
	if last.Error != "" {
		err = errors.Join(errors.New(last.Error), err)
	}
	if err != nil {
		return last, c.failed(fmt.Errorf("%s: %w", c.name, err), nil)
	}
	return last, nil
}

func (c *process) kill() error {
	_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	for range c.words { // until it has ended
	}
	return <-c.done
}

// failed adds the end of what the child has logged.
func (c *process) failed(err, end error) error {
	const tail = 4 << 10
	log, _ := os.ReadFile(c.log)
	if len(log) > tail {
		log = log[len(log)-tail:]
	}
	if len(log) == 0 {
		return errors.Join(err, end)
	}
	return fmt.Errorf("%w; its log ends with:\n%s", errors.Join(err, end), log)
}

// decode reads what encode wrote.
func decode(raw []byte) (*hdrhistogram.Histogram, error) {
	if raw == nil {
		return NewHistogram(), nil
	}
	return hdrhistogram.Decode(raw)
}
