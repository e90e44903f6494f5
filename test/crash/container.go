package crash

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/workpulling/workpulling/test/prober"
)

// restartPause is how long a container that ended stays down.
const restartPause = 250 * time.Millisecond

// container runs one program again and again, until it is stopped.
type container struct {
	name    string
	command command
	// unasked is told how the program ended when nobody had killed it.
	unasked func(name, end string)

	mu      sync.Mutex
	process *process        // nil while it is down
	killed  bool            // this process, by us
	back    <-chan struct{} // what the next start waits for, nil for nothing
	starts  int
	lives   []prober.Span
	pauses  []prober.Span
	stopped chan struct{}
	over    chan struct{}
}

func runContainer(name string, c command, unasked func(name, end string)) *container {
	r := &container{name: name, command: c, unasked: unasked, stopped: make(chan struct{}), over: make(chan struct{})}
	go r.run()
	return r
}

func (c *container) run() {
	defer close(c.over)
	for {
		p := c.start()
		if p != nil {
			<-p.exited
			c.ended(p)
		}
		if !c.rest() {
			return
		}
	}
}

// rest is the time between two lives; false means that there is no other.
func (c *container) rest() bool {
	c.mu.Lock()
	back := c.back
	c.back = nil
	c.mu.Unlock()
	if back != nil {
		select {
		case <-back:
		case <-c.stopped:
		}
	}
	select {
	case <-time.After(restartPause):
		return true
	case <-c.stopped:
		return false
	}
}

// start starts the program unless the container is stopped.
func (c *container) start() *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.stopped:
		return nil
	default:
	}
	from := prober.Now()
	p, err := startProcess(c.command)
	if err != nil {
		c.unasked(c.name, err.Error())
		return nil
	}
	c.process, c.killed = p, false
	c.starts++
	c.lives = append(c.lives, prober.Span{From: from})
	return p
}

func (c *container) ended(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.process = nil
	c.died()
	if !c.killed {
		c.unasked(c.name, p.end())
	}
}

// died notes the end of the life that lasts, if one does.
func (c *container) died() {
	if last := len(c.lives) - 1; last >= 0 && c.lives[last].To == 0 {
		c.lives[last].To = prober.Now()
	}
}

// past tells when the program was up, and when it was paused.
func (c *container) past() (lives, pauses []prober.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.lives), slices.Clone(c.pauses)
}

// kill sends SIGKILL to the program, if it is up, and says whether it was.
func (c *container) kill() (bool, error) { return c.killUntil(nil) }

// killUntil does the same and keeps the program down until back is closed.
func (c *container) killUntil(back <-chan struct{}) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return false, nil
	}
	c.killed, c.back = true, back
	c.died()
	return true, c.process.signal(syscall.SIGKILL)
}

// pause stops the program until over is closed, with SIGSTOP, and says whether it was up. Whatever became of it, SIGCONT follows, when the
// last of several pauses that overlap is over.
func (c *container) pause(over <-chan struct{}) (bool, error) {
	p, at, err := c.hold()
	if p == nil || err != nil {
		return false, err
	}
	select {
	case <-over:
	case <-p.exited:
	case <-c.stopped:
	}
	return true, c.goOn(p, at)
}

// hold begins a pause, which is number at; the process is nil where none is up.
func (c *container) hold() (p *process, at int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return nil, 0, nil
	}
	c.pauses = append(c.pauses, prober.Span{From: prober.Now()})
	c.process.holds++
	return c.process, len(c.pauses) - 1, c.process.signal(syscall.SIGSTOP)
}

func (c *container) goOn(p *process, at int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pauses[at].To = prober.Now()
	if p.holds--; p.holds > 0 {
		return nil
	}
	return p.signal(syscall.SIGCONT)
}

// held says whether the program is paused.
func (c *container) held() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process != nil && c.process.holds > 0
}

// stop ends the program for good.
func (c *container) stop() error {
	c.mu.Lock()
	select {
	case <-c.stopped:
	default:
		close(c.stopped)
	}
	c.killed = true
	c.died()
	p := c.process
	c.mu.Unlock()
	var err error
	if p != nil {
		err = p.signal(syscall.SIGKILL)
	}
	<-c.over
	return err
}

// running returns the process id and how many times the program was started; 0 while it is down.
func (c *container) running() (pid, starts int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return 0, c.starts
	}
	return c.process.pid(), c.starts
}

// probe asks the readiness of a sidecar.
func probe(client *http.Client, address string) error {
	answer, err := client.Get("http://" + address + "/readyz")
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", answer.Status)
	}
	return nil
}
