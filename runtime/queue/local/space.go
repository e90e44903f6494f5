package local

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	bolt "go.etcd.io/bbolt"

	"github.com/workpulling/workpulling/runtime/queue"
)

const (
	// reserveBytes stay behind every store for the commits that store nothing: a tree that is never overwritten in place needs free
	// pages even to forget something. They are enough for a thousand changes that lie wide apart.
	reserveBytes = 4 << 20
	// reservePerJob stays as well for each unsettled job: its tombstone is written long before the pages that it leaves can be
	// used again.
	reservePerJob = 256
	// reserveText is the part of the reserve that texts for people may use. Beyond it they are cut short: nothing depends on them.
	reserveText = reserveBytes / 2
	// shortText is what remains of them then, in bytes.
	shortText = 64

	// costPerJob is what the tree grows by for a job, beside its bytes.
	costPerJob = 1 << 10

	// growBytes is the most that the file takes from the volume ahead of its need.
	growBytes = 16 << 20
)

// space is the part of the volume that belongs to the tree's file: pages in use, free pages, and a tail that no page has used yet. The
// engine lets a file grow by holes, which a full volume cannot fill; so stores take real space for the tail and leave a reserve
// of it, and what must pass on a full volume lives on that.
type space struct {
	file    *os.File
	page    int64
	growing sync.Mutex // one takes space at a time, and nobody else waits for that

	mu   sync.Mutex // guards what follows
	end  int64      // up to here at least the file needs nothing from the volume
	size int64      // up to here pages were used when it was measured
	free int64      // bytes of the free pages among them
}

// noRoom says that new jobs must wait, because the volume gives no more space.
func noRoom(err error) error {
	if !outOfSpace(err) {
		return fmt.Errorf("taking space of the volume: %w", err)
	}
	return fmt.Errorf("%w: the volume has no room for more jobs: %w", queue.ErrFull, err)
}

// outOfSpace recognises a volume, quota or limit that is used up.
func outOfSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

func openSpace(path string, page int) (*space, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &space{file: file, page: int64(page)}, nil
}

func (s *space) close() error { return s.file.Close() }

// measure looks at the tree between two transactions that write: pages that the last one left are free for the next.
func (s *space) measure(db *bolt.DB) error {
	stats := db.Stats()
	return db.View(func(tx *bolt.Tx) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.size, s.free = tx.Size(), int64(stats.FreePageN+stats.PendingPageN)*s.page
		s.end = max(s.end, s.size) // pages below that were written once
		return nil
	})
}

// room is how many bytes a transaction may write without new space from the volume.
func (s *space) room() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free + s.end - s.size
}

// used is how many bytes of the file hold something.
func (s *space) used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size - s.free
}

// grow takes at least so many bytes from the volume, some more if there is plenty, and returns how many.
func (s *space) grow(bytes int64) (int64, error) {
	s.growing.Lock()
	defer s.growing.Unlock()
	bytes = (bytes + s.page - 1) / s.page * s.page
	ahead := min(max(s.used()/8, 1<<20), growBytes) / s.page * s.page
	if err := s.extend(bytes + ahead); err == nil {
		return bytes + ahead, nil
	}
	return bytes, s.extend(bytes)
}

// hold takes the reserve at opening. On a volume that is full already it takes what is left, in halves: the queue must open there
// all the same.
func (s *space) hold(missing int64) {
	s.growing.Lock()
	defer s.growing.Unlock()
	for ; missing >= s.page; missing /= 2 {
		_ = s.extend(missing)
	}
}

func (s *space) extend(bytes int64) error {
	s.mu.Lock()
	end := s.end
	s.mu.Unlock()
	if err := allocate(s.file, end, bytes); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = max(s.end, end+bytes)
	return nil
}

// reserve is how many bytes must stay behind a store.
func reserve(s state) int64 { return reserveBytes + (s.stored+s.dead)*reservePerJob }

// costOf bounds what the tree grows by for new jobs of so many bytes: two records of a job to a page, and its entry, its id and their
// keys, on pages that may be half full.
func costOf(bytes, jobs int) int64 { return int64(bytes)*7/6 + int64(jobs)*costPerJob }
