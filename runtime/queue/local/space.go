package local

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	bolt "go.etcd.io/bbolt"

	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// errFull is retriable, as is everything that is none of the queue's own errors.
var errFull = errors.New("local queue: the volume has no room for more jobs")

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

	// growBytes is the most that the file takes from the volume ahead of its need.
	growBytes = 16 << 20
)

// space is the part of the volume that belongs to the file: pages in use, free pages, and a tail that no page has used yet. The
// engine lets a file grow by holes, which a full volume cannot fill; so stores take real space for the tail and leave a reserve
// of it, and what must pass on a full volume lives on that. It is used in turns: during a transaction that writes, and at opening.
type space struct {
	file *os.File
	page int64
	end  int64 // up to here at least the file needs nothing from the volume
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

// room is how many bytes a transaction may write without new space from the volume. The statistics are those from before it
// began: pages that the last commit left are free unless somebody still reads.
func (s *space) room(stats bolt.Stats, tx *bolt.Tx) int64 {
	s.end = max(s.end, tx.Size()) // pages below that were written once
	free := stats.FreePageN
	if stats.OpenTxN == 0 {
		free += stats.PendingPageN
	}
	return int64(free)*s.page + s.end - tx.Size()
}

// grow takes at least so many bytes from the volume, some more if there is plenty, and returns how many.
func (s *space) grow(bytes int64) (int64, error) {
	bytes = (bytes + s.page - 1) / s.page * s.page
	ahead := min(max(s.end/8, 1<<20), growBytes) / s.page * s.page
	if err := s.extend(bytes + ahead); err == nil {
		return bytes + ahead, nil
	}
	return bytes, s.extend(bytes)
}

// hold takes the reserve at opening. On a volume that is full already it takes what is left, in halves: the queue must open there
// all the same.
func (s *space) hold(missing int64) {
	for ; missing >= s.page; missing /= 2 {
		_ = s.extend(missing)
	}
}

func (s *space) extend(bytes int64) error {
	err := allocate(s.file, s.end, bytes)
	if err == nil {
		err = s.file.Sync()
	}
	if err == nil {
		s.end += bytes
	}
	return err
}

// take sets apart what the new jobs of a plan need, so that the reserve stays; an error means that they must wait, and changes
// nothing. Without new jobs it asks for nothing.
func (t *table) take(changes []ledger.Change, jobs [][]byte) error {
	bytes, count := 0, 0
	for _, change := range changes {
		if change.Job >= 0 {
			bytes += len(jobs[change.Job])
			count++
		}
	}
	if count == 0 {
		return nil
	}
	cost := t.space.cost(bytes, count)
	if missing := cost + t.reserve() + int64(count)*reservePerJob - t.room; missing > 0 {
		taken, err := t.space.grow(missing)
		if err != nil {
			return fmt.Errorf("%w: %w", errFull, err)
		}
		t.room += taken
	}
	t.room -= cost
	return nil
}

// afford cuts a text for people short where only the last of the reserve is left for what must pass.
func (t *table) afford(text string) string {
	if len(text) <= shortText {
		return text
	}
	if t.room -= 2 * int64(len(text)); t.room < t.reserve()-reserveText {
		return strings.ToValidUTF8(text[:shortText], "")
	}
	return text
}

// reserve is how many bytes must stay behind a store.
func (t *table) reserve() int64 { return reserveBytes + (t.state.stored+t.state.dead)*reservePerJob }

// cost bounds, with some margin, what a transaction writes for new jobs of so many bytes: two records of a job to a page, and
// for each job a page of the index of ids, whose keys are random.
func (s *space) cost(bytes, jobs int) int64 {
	return int64(bytes)*7/6 + int64(jobs+32)*s.page
}
