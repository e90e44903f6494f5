package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/workpulling/workpulling/runtime/queue"
)

// journal is the file in which a group is synced before it is answered. It has two halves. The groups of one generation go into one
// of them, one behind the other, while those of the generation before, in the other half, are written to the tree; when they are, the
// tree says so, and the half is free for the next generation without having been touched.
//
// A record starts at a block of its own, so that writing it never touches a block of one that was answered. Its checksum covers its
// generation and its number, so that nothing that lay there before is taken for a record, and a salt that no submitter knows, so that no
// payload is either. A record that is not whole is where a crash cut the journal off, unless a whole one of the same generation comes
// behind it: then it is damage.
type journal struct {
	file disk
	journalShape
	journalMark
	at      int64 // where the next record goes, in the half of the generation after the mark's
	last    int64 // where the last one begins that was found at opening
	written int64 // up to here the blocks of the half were written once; a sync of such blocks does without the file system's own log
	failed  bool  // at holds what a failed write left
}

// disk is what a journal needs of a file.
type disk interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync makes what was written durable.
	Sync() error
}

// dataFile syncs its data alone: a journal never changes its length.
type dataFile struct{ *os.File }

func (f dataFile) Sync() error { return syncData(f.File) }

// journalShape is what a journal keeps all its life.
type journalShape struct {
	half int64 // bytes of one half
	salt [8]byte
}

// journalMark is a point in the journal: the end of a generation.
type journalMark struct {
	generation uint64
	number     uint64 // of the last group
}

const (
	journalBlock  = 4096
	journalMagic  = 0x77706a31
	journalHeader = 28 // magic, checksum, generation, number, length of what follows

	// A half has a share of the volume, within these bounds.
	journalShare = 64
	smallestHalf = 256 << 10
	largestHalf  = 32 << 20
	// writtenAhead is how many blocks are written in vain with the first that is new to its half.
	writtenAhead = 1 << 20
)

// createJournal makes an empty journal with halves of so many bytes; zero means a share of the volume, or as much as there is room for. What
// is there under the name belongs to no queue.
func createJournal(path string, half int64, random io.Reader) (shape journalShape, err error) {
	if shape.half = half; half == 0 {
		volume, err := volumeBytes(filepath.Dir(path))
		if err != nil {
			return shape, err
		}
		shape.half = min(max(volume/journalShare, smallestHalf), largestHalf) / journalBlock * journalBlock
	}
	if _, err := io.ReadFull(random, shape.salt[:]); err != nil {
		return shape, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o660)
	if err != nil {
		return shape, err
	}
	err = allocate(file, 0, 2*shape.half)
	for ; err != nil && outOfSpace(err) && half == 0 && shape.half > smallestHalf; err = allocate(file, 0, 2*shape.half) {
		shape.half = max(shape.half/2/journalBlock*journalBlock, smallestHalf)
		if err := file.Truncate(0); err != nil { // it has some of the blocks
			return shape, errors.Join(err, file.Close())
		}
	}
	if err == nil {
		err = file.Sync()
	} else {
		err = errors.Join(err, file.Truncate(0)) // the volume needs them
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return shape, err
	}
	return shape, syncDir(filepath.Dir(path))
}

func openJournal(path string, shape journalShape) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: the journal is missing", queue.ErrConflict)
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Size() < 2*shape.half {
		err = fmt.Errorf("%w: the journal has %d of %d bytes: it was cut off", queue.ErrConflict, info.Size(), 2*shape.half)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &journal{file: dataFile{file}, journalShape: shape}, nil
}

func (j *journal) close() error { return j.file.Close() }

// start is where a generation has its half.
func (j *journal) start(generation uint64) int64 { return int64(generation%2) * j.half }

// newRecord has room for the header; the group's changes are appended to it.
func newRecord(buffer []byte) []byte { return append(buffer[:0], make([]byte, journalHeader)...) }

// holds tells whether a record can have a place in a half at all, and fits whether it has one in the rest of this half.
func (j *journal) holds(record []byte) bool { return padded(record) <= j.half }
func (j *journal) fits(record []byte) bool  { return j.at+padded(record) <= j.half }

func padded(record []byte) int64 {
	return (int64(len(record)) + journalBlock - 1) / journalBlock * journalBlock
}

// append writes and syncs a record that fits. After an error it may be there nevertheless, until erase.
func (j *journal) append(record []byte) error {
	binary.BigEndian.PutUint32(record, journalMagic)
	binary.BigEndian.PutUint64(record[8:], j.generation+1)
	binary.BigEndian.PutUint64(record[16:], j.number+1)
	binary.BigEndian.PutUint32(record[24:], uint32(len(record)-journalHeader))
	binary.BigEndian.PutUint32(record[4:], j.checksum(record))
	end := j.at + padded(record)
	record = append(record, make([]byte, end-j.at-int64(len(record)))...)
	j.failed = true
	if err := j.write(record, end); err != nil {
		return err
	}
	j.failed = false
	j.at, j.number = end, j.number+1
	return nil
}

func (j *journal) write(blocks []byte, end int64) error {
	start := j.start(j.generation + 1)
	if _, err := j.file.WriteAt(blocks, start+j.at); err != nil {
		return err
	}
	if end > j.written {
		ahead := min(end+writtenAhead, j.half)
		if err := writeZeros(j.file, start+end, ahead-end); err != nil {
			return err
		}
		j.written = ahead
	}
	return j.file.Sync()
}

// erase makes sure that a record whose write failed is not there: nothing may happen before.
func (j *journal) erase() error {
	if !j.failed || j.at == j.half {
		return nil
	}
	if err := j.write(make([]byte, journalBlock), j.at+journalBlock); err != nil {
		return err
	}
	j.failed = false
	return nil
}

// turn ends the generation: the next record opens the other half, which must be free.
func (j *journal) turn() journalMark {
	j.generation++
	j.at, j.written = 0, j.half
	if j.generation < 2 { // else the half was full once
		j.written = 0
	}
	return j.journalMark
}

func (j *journal) checksum(record []byte) uint32 {
	return crc32.Update(crc32.Checksum(j.salt[:], castagnoli), castagnoli, record[8:])
}

// replay visits the changes of each group that follows a mark in its generation, and goes to their end. It returns how many there are.
func (j *journal) replay(mark journalMark, visit func(changes []byte) error) (int, error) {
	half := make([]byte, j.half)
	generation := mark.generation + 1
	if _, err := j.file.ReadAt(half, j.start(generation)); err != nil {
		return 0, err
	}
	j.journalMark, j.at, j.last, j.written = mark, 0, 0, j.half
	groups := 0
	for j.at < j.half {
		record := j.record(half[j.at:], generation)
		if record == nil {
			break
		}
		if number := binary.BigEndian.Uint64(record[16:]); number != j.number+1 {
			return groups, fmt.Errorf("%w: damaged journal: group %d follows group %d", queue.ErrConflict, number, j.number)
		}
		if err := visit(record[journalHeader:]); err != nil {
			return groups, err
		}
		groups++
		j.number++
		j.last = j.at
		j.at += padded(record)
	}
	for at := j.at; at < j.half; at += journalBlock {
		if j.record(half[at:], generation) != nil {
			return groups, fmt.Errorf("%w: damaged journal: a group behind group %d is there, but not the next", queue.ErrConflict, j.number)
		}
	}
	return groups, nil
}

// secure makes the last record durable that was found: its writer may have ended before it was, or been told that it was not. A sync
// alone does not suffice after one that failed.
func (j *journal) secure() error {
	blocks, start := make([]byte, j.at-j.last), j.start(j.generation+1)+j.last
	if _, err := j.file.ReadAt(blocks, start); err != nil {
		return err
	}
	if _, err := j.file.WriteAt(blocks, start); err != nil {
		return err
	}
	return j.file.Sync()
}

// record is the whole record of a generation at the head of some blocks, or nil.
func (j *journal) record(blocks []byte, generation uint64) []byte {
	if binary.BigEndian.Uint32(blocks) != journalMagic || binary.BigEndian.Uint64(blocks[8:]) != generation {
		return nil
	}
	length := int64(binary.BigEndian.Uint32(blocks[24:])) + journalHeader
	if length > int64(len(blocks)) || binary.BigEndian.Uint32(blocks[4:]) != j.checksum(blocks[:length]) {
		return nil
	}
	return blocks[:length:length]
}
