package local

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// Both ways to get space leave what was there and give the file real blocks.
func TestAllocate(t *testing.T) {
	for name, allocate := range map[string]func(*os.File, int64, int64) error{"allocated": allocate, "written": writeZeros} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := openSpace(path, 4096)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.close() }()
			const size = 3<<20 + 5
			if err := allocate(s.file, 4096, size); err != nil {
				t.Fatal(err)
			}
			var info syscall.Stat_t
			if err := syscall.Stat(path, &info); err != nil || info.Size != 4096+size || info.Blocks*512 < size {
				t.Errorf("%d bytes in %d blocks, error %v", info.Size, info.Blocks, err)
			}
			head := make([]byte, 8)
			if _, err := s.file.ReadAt(head, 0); err != nil || !bytes.Equal(head, []byte("content\x00")) {
				t.Errorf("%q, error %v", head, err)
			}
		})
	}
}

// What the pages that the last commit left are worth depends on whether somebody may still read them.
func TestRoom(t *testing.T) {
	q, err := Open(t.Context(), Options{Dir: t.TempDir(), FlowUID: "uid-1"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = q.Close() }()
	page := q.space.page
	for _, test := range []struct {
		name  string
		stats bolt.Stats
		tail  int64
		want  int64
	}{
		{name: "nothing free"},
		{name: "free pages", stats: bolt.Stats{FreePageN: 3}, want: 3 * page},
		{name: "pages that nobody reads", stats: bolt.Stats{FreePageN: 3, PendingPageN: 2}, want: 5 * page},
		{name: "pages that somebody may read", stats: bolt.Stats{FreePageN: 3, PendingPageN: 2, OpenTxN: 1}, want: 3 * page},
		{name: "a tail", stats: bolt.Stats{FreePageN: 3}, tail: 7 * page, want: 10 * page},
		{name: "a tail that is used up", tail: -7 * page},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := q.db.View(func(tx *bolt.Tx) error {
				q.space.end = tx.Size() + test.tail
				if got := q.space.room(test.stats, tx); got != test.want {
					t.Errorf("%d bytes, want %d", got, test.want)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}
