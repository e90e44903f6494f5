package memory

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// A record whose figures cannot be counts as none, also under a right checksum: found by FuzzLossFile.
func TestImpossibleLossesAreNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "loss")
	for name, counters := range map[string][2]uint64{
		"unsettled is negative": {math.MaxUint64, 0}, "earlier is negative": {0, 1 << 63}, "the sum is": {1 << 62, 1 << 62},
	} {
		raw := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, counters[0]), counters[1])
		if err := os.WriteFile(path, binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(raw)), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := openLossFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if l.lost() != 0 {
			t.Errorf("%s: %d jobs were lost", name, l.lost())
		}
		if err := l.close(); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzLossFile opens any file, with the checksum that it has and with a right one: it is a figure that can be, and the next process
// counts on from there.
func FuzzLossFile(f *testing.F) {
	f.Add([]byte{}, false)
	f.Add(make([]byte, lossBytes), true)
	f.Add([]byte("12345678abcdefgh"), true)
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x09more than a record"), true)
	path := filepath.Join(f.TempDir(), "loss")
	f.Fuzz(func(t *testing.T, raw []byte, seal bool) {
		if seal && len(raw) >= 16 {
			raw = append(binary.BigEndian.AppendUint32(raw[:16:16], crc32.ChecksumIEEE(raw[:16])), raw[16:]...)
		}
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := openLossFile(path)
		if err != nil {
			t.Fatalf("opening %x: %v", raw, err)
		}
		before := l.lost()
		l.record(3)
		if err := l.close(); err != nil || before < 0 {
			t.Fatalf("%d jobs were lost, error %v", before, err)
		}
		if l, err = openLossFile(path); err != nil || before < math.MaxInt64-3 && l.lost() != before+3 {
			t.Fatalf("%d after %d jobs were lost, error %v", l.lost(), before, err)
		}
		if err := l.close(); err != nil {
			t.Fatal(err)
		}
	})
}
