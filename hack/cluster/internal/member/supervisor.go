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
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/workpulling/workpulling/hack/cluster/internal/component"
)

// pause is the time between the end of a component and its next start.
const pause = time.Second

// supervisor keeps components running and reaps whatever else ends in the namespace.
type supervisor struct {
	logDir string

	mu       sync.Mutex
	children map[int]chan syscall.WaitStatus // by process id
	statuses Statuses
}

func newSupervisor(logDir string) *supervisor {
	return &supervisor{logDir: logDir, children: map[int]chan syscall.WaitStatus{}, statuses: Statuses{}}
}

// keep runs a component for ever.
func (s *supervisor) keep(c component.Component) {
	for {
		waitFor(c.After)
		pid, ended, err := s.start(c)
		if err != nil {
			log.Printf("starting %s: %v", c.Name, err)
			s.note(c.Name, func(st *Status) { st.Restarts++; st.LastEnd = err.Error() })
			time.Sleep(pause)
			continue
		}
		log.Printf("%s runs as process %d", c.Name, pid)
		s.note(c.Name, func(st *Status) { st.PID = pid })
		end := describe(<-ended)
		log.Printf("%s ended: %s", c.Name, end)
		s.note(c.Name, func(st *Status) { st.PID = 0; st.Restarts++; st.LastEnd = end })
		time.Sleep(pause)
	}
}

// start forks under the lock, so that reap cannot meet a child it does not know yet.
func (s *supervisor) start(c component.Component) (int, <-chan syscall.WaitStatus, error) {
	out, err := os.OpenFile(filepath.Join(s.logDir, c.Name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return 0, nil, err
	}
	defer out.Close()
	in, err := os.Open(os.DevNull)
	if err != nil {
		return 0, nil, err
	}
	defer in.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	pid, err := syscall.ForkExec(c.Args[0], c.Args, &syscall.ProcAttr{
		Dir:   "/",
		Env:   append(os.Environ(), c.Env...),
		Files: []uintptr{in.Fd(), out.Fd(), out.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, nil, err
	}
	ended := make(chan syscall.WaitStatus, 1)
	s.children[pid] = ended
	return pid, ended, nil
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
	status := s.statuses[name]
	change(&status)
	s.statuses[name] = status
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
