package memory

import (
	"iter"
	"maps"
	"slices"
)

// pages find a job by its sequence. Sequences rise by one, so that neighbours share a page; a page goes with its last job. One that is
// held for a single old job costs as much as a few jobs.
type pages struct {
	frames frames[page]
	byHead map[int64]uint32 // the frame of a page, by its sequences without their last bits
}

// page has either a record or a tombstone, or neither, for each of its sequences.
type page struct {
	records *[perFrame]*record // nil if there is none, so that a page of tombstones alone has no pointers
	tombs   [perFrame]place    // places in the yard
	head    int64
	used    int32 // records and tombstones
	living  int32 // records
}

func newPages() pages { return pages{byHead: map[int64]uint32{}} }

// open makes room for a new sequence and returns its place for good.
func (p *pages) open(seq int64) place {
	head := seq >> frameBits
	number, ok := p.byHead[head]
	if !ok {
		number = p.frames.add(&page{head: head})
		p.byHead[head] = number
	}
	p.frames.at(number).used++
	return placeOf(number, int(seq&(perFrame-1)))
}

// find returns the page of a sequence, nil if there is none, and the member.
func (p *pages) find(seq int64) (*page, int) {
	number, ok := p.byHead[seq>>frameBits]
	if !ok {
		return nil, 0
	}
	return p.frames.at(number), int(seq & (perFrame - 1))
}

// place is that of a sequence which is there.
func (p *pages) place(seq int64) place {
	return placeOf(p.byHead[seq>>frameBits], int(seq&(perFrame-1)))
}

func (p *pages) at(at place) (*page, int) { return p.frames.at(at.frame()), at.member() }

// close forgets a sequence.
func (p *pages) close(at place) {
	page, i := p.at(at)
	page.tombs[i] = 0
	if page.used--; page.used == 0 {
		delete(p.byHead, page.head)
		p.frames.drop(at.frame())
	}
}

// records are those with a sequence above after, ascending.
func (p *pages) records(after int64) iter.Seq[*record] {
	return func(yield func(*record) bool) {
		for _, head := range slices.Sorted(maps.Keys(p.byHead)) {
			page := p.frames.at(p.byHead[head])
			if page.records == nil || head < after>>frameBits {
				continue
			}
			for _, r := range page.records {
				if r != nil && r.StoreSeq > after && !yield(r) {
					return
				}
			}
		}
	}
}

func (p *page) seq(i int) int64 { return p.head<<frameBits | int64(i) }

func (p *page) record(i int) *record {
	if p == nil || p.records == nil {
		return nil
	}
	return p.records[i]
}

func (p *page) setRecord(i int, r *record) {
	if p.records == nil {
		p.records = new([perFrame]*record)
	}
	p.records[i] = r
	p.living++
}

// takeRecord leaves the sequence to a tombstone.
func (p *page) takeRecord(i int) *record {
	r := p.records[i]
	p.records[i] = nil
	if p.living--; p.living == 0 {
		p.records = nil
	}
	return r
}
