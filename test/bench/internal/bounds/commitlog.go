package bounds

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// commitLog appends jobs to a file and syncs them in groups: what arrives during one sync goes with the next.
type commitLog struct {
	file    *os.File
	mu      sync.Mutex
	wake    chan struct{}
	pending []byte
	waiting []chan error
	ended   chan struct{}
}

func openLog(path string) (*commitLog, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	l := &commitLog{file: file, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go l.run()
	return l, nil
}

// append tells when the jobs are on the disk.
func (l *commitLog) append(jobs []*pb.Delivery) <-chan error {
	written := make(chan error, 1)
	l.mu.Lock()
	for _, j := range jobs {
		l.pending = binary.LittleEndian.AppendUint32(l.pending, uint32(len(j.Job.Payload)))
		l.pending = append(l.pending, j.Job.Payload...)
	}
	l.waiting = append(l.waiting, written)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default: // awake already
	}
	return written
}

func (l *commitLog) run() {
	defer close(l.ended)
	var spare []byte
	for range l.wake {
		l.mu.Lock()
		group, waiting := l.pending, l.waiting
		l.pending, l.waiting = spare[:0], nil
		l.mu.Unlock()
		if len(waiting) == 0 {
			spare = group
			continue
		}
		err := l.write(group)
		for _, w := range waiting {
			w <- err
		}
		spare = group
	}
}

func (l *commitLog) write(group []byte) error {
	if _, err := l.file.Write(group); err != nil {
		return fmt.Errorf("appending to the log: %w", err)
	}
	if err := unix.Fdatasync(int(l.file.Fd())); err != nil {
		return fmt.Errorf("syncing the log: %w", err)
	}
	return nil
}

// close ends the log; nobody appends any more.
func (l *commitLog) close() error {
	close(l.wake)
	<-l.ended
	return l.file.Close()
}
