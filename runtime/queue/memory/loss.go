package memory

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
)

// lossFile keeps two counters in a fixed record: how many jobs are unsettled now, and how many were lost in all earlier
// processes. The unsettled of a process that ended are the lost of the next. A nil lossFile counts nothing.
type lossFile struct {
	file      *os.File
	unsettled int
	earlier   int64
	err       error // the first failed write; counting losses must never fail a job
}

const lossBytes = 8 + 8 + 4 // unsettled, lost, CRC-32

func openLossFile(path string) (*lossFile, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	l := &lossFile{file: file}
	if err := l.inherit(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return l, nil
}

// inherit takes over the counters of the process before. A record that cannot be read counts as no record: better no figure
// than a wrong one.
func (l *lossFile) inherit() error {
	var b [lossBytes]byte
	n, err := l.file.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading: %w", err)
	}
	unsettled, earlier := int64(binary.BigEndian.Uint64(b[:8])), int64(binary.BigEndian.Uint64(b[8:16]))
	whole := n == lossBytes && crc32.ChecksumIEEE(b[:16]) == binary.BigEndian.Uint32(b[16:])
	if whole && unsettled >= 0 && earlier >= 0 && earlier <= math.MaxInt64-unsettled {
		l.earlier = earlier + unsettled
	}
	l.write(0)
	return l.err
}

// record notes the number of unsettled jobs.
func (l *lossFile) record(unsettled int) {
	if l != nil && unsettled != l.unsettled {
		l.write(unsettled)
	}
}

func (l *lossFile) write(unsettled int) {
	var b [lossBytes]byte
	binary.BigEndian.PutUint64(b[:8], uint64(unsettled))
	binary.BigEndian.PutUint64(b[8:16], uint64(l.earlier))
	binary.BigEndian.PutUint32(b[16:], crc32.ChecksumIEEE(b[:16]))
	if _, err := l.file.WriteAt(b[:], 0); err != nil {
		if l.err == nil {
			l.err = err
		}
		return
	}
	l.unsettled = unsettled
}

func (l *lossFile) lost() int64 {
	if l == nil {
		return 0
	}
	return l.earlier
}

func (l *lossFile) close() error {
	if l == nil {
		return nil
	}
	return errors.Join(l.err, l.file.Close())
}
