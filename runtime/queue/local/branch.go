package local

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"

	bolt "go.etcd.io/bbolt"

	"github.com/workpulling/workpulling/runtime/queue"
)

// The engine's pages, as far as they lead to others: a head with flags (at 8), the number of elements (at 10) and of further pages (at 12),
// then elements with the place of a key as seen from the element, its length, and the page that it leads to.
const (
	pageHeadBytes      = 16
	branchElementBytes = 16
	branchPage         = 1
)

// walkBranches looks at each page that leads to others, whose keys no walk over the leaves meets: one with a damaged length leads out of the
// file, and the engine would be the first to look, in a goroutine of its own.
func walkBranches(tx *bolt.Tx, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	b := branches{file: file, pageBytes: int64(tx.DB().Info().PageSize), fileBytes: tx.Size()}
	b.next = append(b.next, uint64(tx.Cursor().Bucket().Root()))
	if err := tx.ForEach(func(_ []byte, bucket *bolt.Bucket) error {
		b.next = append(b.next, uint64(bucket.Root())) // 0 for one that has no page of its own
		return nil
	}); err != nil {
		return err
	}
	return b.walk()
}

// branches is a walk over the pages that lead to others.
type branches struct {
	file                 io.ReaderAt
	pageBytes, fileBytes int64
	next                 []uint64
}

func (b *branches) walk() error {
	for most := b.fileBytes/b.pageBytes + int64(len(b.next)); len(b.next) > 0; most-- {
		if most < 0 {
			return fmt.Errorf("%w: damaged file: pages lead in circles", queue.ErrConflict)
		}
		page := b.next[len(b.next)-1]
		b.next = b.next[:len(b.next)-1]
		if err := b.look(page); err != nil {
			return err
		}
	}
	return nil
}

// look checks one page, and goes on to those that it leads to if the first of them leads to others itself: all are alike.
func (b *branches) look(page uint64) error {
	children, err := b.read(page)
	if err != nil || len(children) == 0 {
		return err
	}
	below, err := b.read(children[0])
	if len(below) > 0 {
		b.next = append(b.next, children...)
	}
	return err
}

// read checks one page, and returns the pages that it leads to.
func (b *branches) read(page uint64) (children []uint64, err error) {
	start := int64(page) * b.pageBytes
	if page > uint64(b.fileBytes/b.pageBytes) || start+pageHeadBytes > b.fileBytes {
		return nil, fmt.Errorf("%w: damaged file: a page leads to page %d, which is not there", queue.ErrConflict, page)
	}
	head := make([]byte, pageHeadBytes)
	if _, err := b.file.ReadAt(head, start); err != nil {
		return nil, fmt.Errorf("reading page %d: %w", page, err)
	}
	if binary.NativeEndian.Uint16(head[8:]) != branchPage {
		return nil, nil
	}
	count := int64(binary.NativeEndian.Uint16(head[10:]))
	room := b.pageBytes * (1 + int64(binary.NativeEndian.Uint32(head[12:])))
	if start+room > b.fileBytes || pageHeadBytes+count*branchElementBytes > room {
		return nil, fmt.Errorf("%w: damaged file: page %d ends beyond the file", queue.ErrConflict, page)
	}
	body := make([]byte, count*branchElementBytes)
	if _, err := b.file.ReadAt(body, start+pageHeadBytes); err != nil {
		return nil, fmt.Errorf("reading page %d: %w", page, err)
	}
	for at := range count {
		element := body[at*branchElementBytes:]
		place, length := int64(binary.NativeEndian.Uint32(element)), int64(binary.NativeEndian.Uint32(element[4:]))
		if pageHeadBytes+at*branchElementBytes+place+length > room {
			return nil, fmt.Errorf("%w: damaged file: page %d has a key that ends beyond it", queue.ErrConflict, page)
		}
		children = append(children, binary.NativeEndian.Uint64(element[8:]))
	}
	return children, nil
}
