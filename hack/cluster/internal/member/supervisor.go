package member

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/workpulling/workpulling/hack/cluster/internal/component"
)

// pause is the time between the end of a component and its next start.
const pause = time.Second

// supervisor keeps components running, except for those that are ordered not to run, and reaps whatever else ends in the namespace.
type supervisor struct {
	logDir string

	mu       sync.Mutex
	orders   Orders
	ordered  *sync.Cond
	children map[int]chan syscall.WaitStatus // by process id
	statuses Statuses
}

func newSupervisor(logDir string) *supervisor {
	s := &supervisor{logDir: logDir, children: map[int]chan syscall.WaitStatus{}, statuses: Statuses{}}
	s.ordered = sync.NewCond(&s.mu)
	return s
}

// obey takes new orders. What is to stop is killed, as in a power cut.
func (s *supervisor) obey(o Orders) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders = o
	for name, status := range s.statuses {
		status.Stopped = s.stopped(name)
		s.statuses[name] = status
		if status.Stopped && status.PID != 0 {
			log.Printf("stopping %s: %v", name, syscall.Kill(status.PID, syscall.SIGKILL))
		}
	}
	s.publish()
	s.ordered.Broadcast()
}

func (s *supervisor) stopped(name string) bool { return slices.Contains(s.orders.Stopped, name) }

// keep runs a component for ever.
func (s *supervisor) keep(c component.Component) {
	s.note(c.Name, func(*Status) {})
	for {
		waitFor(c.After)
		ended, err := s.start(c)
		if err != nil {
			log.Printf("starting %s: %v", c.Name, err)
			s.note(c.Name, func(st *Status) { st.Restarts++; st.LastEnd = err.Error() })
			time.Sleep(pause)
			continue
		}
		end := describe(<-ended)
		log.Printf("%s ended: %s", c.Name, end)
		s.note(c.Name, func(st *Status) {
			st.PID, st.LastEnd = 0, end
			if !st.Stopped {
				st.Restarts++
			}
		})
		time.Sleep(pause)
	}
}

// start waits until no order forbids it. It forks under the lock, so that reap cannot meet a child it does not know yet, and
// obey none that it does not know.
func (s *supervisor) start(c component.Component) (<-chan syscall.WaitStatus, error) {
	out, err := os.OpenFile(filepath.Join(s.logDir, c.Name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	in, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.stopped(c.Name) {
		s.ordered.Wait()
	}
	pid, err := syscall.ForkExec(c.Args[0], c.Args, &syscall.ProcAttr{
		Dir:   "/",
		Env:   append(os.Environ(), c.Env...),
		Files: []uintptr{in.Fd(), out.Fd(), out.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, err
	}
	log.Printf("%s runs as process %d", c.Name, pid)
	ended := make(chan syscall.WaitStatus, 1)
	s.children[pid] = ended
	s.change(c.Name, func(st *Status) { st.PID = pid })
	return ended, nil
}

// reap collects every child that ends: the components, and orphans such as the shims of containers.
func (s *supervisor) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.ECHILD) {
			time.Sleep(pause / 10) // no child at the moment
			continue
		}
		if err != nil || pid <= 0 {
			continue
		}
		s.mu.Lock()
		ended := s.children[pid]
		delete(s.children, pid)
		s.mu.Unlock()
		if ended != nil {
			ended <- status
		}
	}
}

// note changes the status of a component and publishes all of them.
func (s *supervisor) note(name string, change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(name, change)
}

func (s *supervisor) change(name string, change func(*Status)) {
	status := s.statuses[name]
	status.Stopped = s.stopped(name)
	change(&status)
	s.statuses[name] = status
	s.publish()
}

func (s *supervisor) publish() {
	if err := s.statuses.save(s.logDir); err != nil {
		log.Printf("publishing the status: %v", err)
	}
}

// waitFor returns when a component's condition holds.
func waitFor(after string) {
	for after != "" && !holds(after) {
		time.Sleep(pause / 5)
	}
}

// holds tries a condition once: see component.Component.After.
func holds(after string) bool {
	kind, where, _ := strings.Cut(after, ":")
	if kind == "ready" {
		response, err := anyone.Get("https://" + where + "/readyz")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	}
	conn, err := net.DialTimeout(kind, where, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// anyone asks without credentials, for what is no secret, and so need not know who answers.
var anyone = &http.Client{
	Timeout:   2 * time.Second,
	Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return fmt.Sprintf("signal %s", status.Signal())
	}
	return fmt.Sprintf("exit code %d", status.ExitStatus())
}
