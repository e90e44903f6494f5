package postgres

import (
	"fmt"
	"slices"
	"sort"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/workpulling/workpulling/runtime/queue"
)

// ranges is a set of sequences, as an int8multirange of the database: ascending, disjoint, and never adjacent.
type ranges []span

// span is the sequences from low to high, both of them included.
type span struct{ low, high int64 }

// of is the set of some sequences in any order.
func of(seqs []int64) ranges {
	slices.Sort(seqs)
	var r ranges
	for _, seq := range seqs {
		r.add(seq)
	}
	return r
}

// has tells whether the set holds a sequence.
func (r ranges) has(seq int64) bool {
	i := r.after(seq)
	return i > 0 && r[i-1].high >= seq
}

// after is the index of the first span that starts above a sequence.
func (r ranges) after(seq int64) int {
	if n := len(r); n == 0 || r[n-1].low <= seq {
		return n // where nearly all look
	}
	return sort.Search(len(r), func(i int) bool { return r[i].low > seq })
}

// add puts a sequence into the set.
func (r *ranges) add(seq int64) {
	s := *r
	i := s.after(seq)
	below, above := i > 0 && s[i-1].high >= seq-1, i < len(s) && s[i].low == seq+1
	switch {
	case i > 0 && s[i-1].high >= seq:
	case below && above:
		s[i-1].high = s[i].high
		*r = slices.Delete(s, i, i+1)
	case below:
		s[i-1].high = seq
	case above:
		s[i].low = seq
	default:
		*r = slices.Insert(s, i, span{seq, seq})
	}
}

// count is how many sequences the set holds.
func (r ranges) count() (n int64) {
	for _, s := range r {
		n += s.high - s.low + 1
	}
	return n
}

// first is the part of the set that holds its n lowest sequences.
func (r ranges) first(n int64) (part ranges) {
	for _, s := range r {
		if n <= 0 {
			break
		}
		s.high = min(s.high, s.low+n-1)
		n -= s.high - s.low + 1
		part = append(part, s)
	}
	return part
}

// What follows is how the driver encodes and scans a multirange: half open, which is the server's own form.

// IsNull implements pgtype.MultirangeGetter: an empty set is one.
func (r ranges) IsNull() bool { return false }

// Len implements pgtype.MultirangeGetter.
func (r ranges) Len() int { return len(r) }

// Index implements pgtype.MultirangeGetter.
func (r ranges) Index(i int) any { return r[i] }

// IndexType implements pgtype.MultirangeGetter.
func (r ranges) IndexType() any { return span{} }

// IsNull implements pgtype.RangeValuer.
func (s span) IsNull() bool { return false }

// BoundTypes implements pgtype.RangeValuer.
func (s span) BoundTypes() (lower, upper pgtype.BoundType) { return pgtype.Inclusive, pgtype.Exclusive }

// Bounds implements pgtype.RangeValuer.
func (s span) Bounds() (lower, upper any) { return s.low, s.high + 1 }

// ScanNull implements pgtype.MultirangeSetter.
func (r *ranges) ScanNull() error {
	return fmt.Errorf("%w: a set of sequences is null", queue.ErrConflict)
}

// SetLen implements pgtype.MultirangeSetter.
func (r *ranges) SetLen(n int) error {
	*r = make(ranges, n)
	return nil
}

// ScanIndex implements pgtype.MultirangeSetter.
func (r *ranges) ScanIndex(i int) any { return &(*r)[i] }

// ScanIndexType implements pgtype.MultirangeSetter.
func (r *ranges) ScanIndexType() any { return new(span) }

// ScanNull implements pgtype.RangeScanner.
func (s *span) ScanNull() error {
	return fmt.Errorf("%w: a range of sequences is null", queue.ErrConflict)
}

// ScanBounds implements pgtype.RangeScanner.
func (s *span) ScanBounds() (lower, upper any) { return &s.low, &s.high }

// SetBoundTypes implements pgtype.RangeScanner.
func (s *span) SetBoundTypes(lower, upper pgtype.BoundType) error {
	if lower != pgtype.Inclusive || upper != pgtype.Exclusive || s.high <= s.low {
		return fmt.Errorf("%w: a range of sequences has no bounds", queue.ErrConflict)
	}
	s.high--
	return nil
}
