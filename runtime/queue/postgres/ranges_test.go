package postgres

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A set of ranges holds what was added, in as few spans as can be.
func TestRanges(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		const top = 60
		var r ranges
		model := map[int64]bool{}
		for range random.IntN(80) {
			seq := 1 + random.Int64N(top)
			r.add(seq)
			model[seq] = true
		}
		var want []int64
		for seq := int64(0); seq <= top+1; seq++ {
			if r.has(seq) != model[seq] {
				t.Fatalf("%v: has(%d) is %v", r, seq, r.has(seq))
			}
			if model[seq] {
				want = append(want, seq)
			}
		}
		for i, s := range r {
			if s.high < s.low || i > 0 && s.low <= r[i-1].high+1 {
				t.Fatalf("%v: span %d is empty or not apart from the one before", r, i)
			}
		}
		if r.count() != int64(len(want)) {
			t.Fatalf("%v: count %d, want %d", r, r.count(), len(want))
		}
		n := random.Int64N(top)
		var first []int64
		for _, s := range r.first(n) {
			for seq := s.low; seq <= s.high; seq++ {
				first = append(first, seq)
			}
		}
		if !slices.Equal(first, want[:min(n, int64(len(want)))]) {
			t.Fatalf("%v: the first %d are %v", r, n, first)
		}
		random.Shuffle(len(want), func(i, j int) { want[i], want[j] = want[j], want[i] })
		if again := of(want); !slices.Equal(again, r) {
			t.Fatalf("%v and %v are of the same sequences", again, r)
		}
	}
}
