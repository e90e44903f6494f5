package local

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Both ways to get space leave what was there and give the file real blocks.
func TestAllocate(t *testing.T) {
	for name, allocate := range map[string]func(*os.File, int64, int64) error{
		"allocated": allocate,
		"written":   func(f *os.File, offset, bytes int64) error { return writeZeros(f, offset, bytes) },
	} {
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

// Pages that are free are worth as much as the tail that no page has used yet.
func TestRoom(t *testing.T) {
	const page = 4096
	for _, test := range []struct {
		name            string
		end, size, free int64
		want            int64
	}{
		{name: "nothing free", end: 9 * page, size: 9 * page},
		{name: "free pages", end: 9 * page, size: 9 * page, free: 3 * page, want: 3 * page},
		{name: "a tail", end: 16 * page, size: 9 * page, free: 3 * page, want: 10 * page},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := space{page: page, end: test.end, size: test.size, free: test.free}
			if got := s.room(); got != test.want {
				t.Errorf("%d bytes, want %d", got, test.want)
			}
		})
	}
}
