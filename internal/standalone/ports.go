package standalone

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Ports of apps lie below those that Linux gives to outgoing connections, so that nobody takes one while its app starts again.
const (
	lowestPort  = 32_000
	highestPort = 32_767
	portCount   = highestPort - lowestPort + 1
)

// ports gives out ports that nobody listens on, each once. While a run has a port, it holds the lock of a file that is named after it, so that
// the worker of one run never finds the app of another.
type ports struct {
	dir        string
	next, left int
	held       []*os.File
}

// newPorts begins at a place that random, in [0, 1), chooses.
func newPorts(random float64) (*ports, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("workpulling-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of ports in use: %w", err)
	}
	return &ports{dir: dir, next: int(random * portCount), left: portCount}, nil
}

var errNoPort = fmt.Errorf("no port between %d and %d is free for an app", lowestPort, highestPort)

// take returns a port that is free, and that no other run gets before close.
func (p *ports) take() (int, error) {
	for ; p.left > 0; p.left-- {
		port := lowestPort + p.next%portCount
		p.next++
		lock, err := os.OpenFile(filepath.Join(p.dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return 0, fmt.Errorf("reserving a port: %w", err)
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil || !free(port) {
			lock.Close()
			continue
		}
		p.left--
		p.held = append(p.held, lock)
		return port, nil
	}
	return 0, errNoPort
}

// close gives all ports back.
func (p *ports) close() {
	for _, lock := range p.held {
		lock.Close()
	}
}

func free(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	return err == nil && listener.Close() == nil
}

// errPortTaken says that an app cannot be started yet.
var errPortTaken = errors.New("waits: another program listens on its port")
