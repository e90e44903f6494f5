package delivery

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// script turns fuzzed bytes into decisions. A script that has ended decides zero for ever.
type script struct{ rest []byte }

// lineBytes is how many bytes decide about one operation: an operation that needs fewer leaves the rest alone, so that a mutation of one
// does not change the meaning of all that follow.
const lineBytes = 8

// fuzzLength bounds a script: longer ones say nothing that a shorter one could not.
const fuzzLength = 500 * lineBytes

// lines cuts a script into one for each operation.
func lines(raw []byte) []script {
	var all []script
	for raw = raw[:min(len(raw), fuzzLength)]; len(raw) > 0; {
		n := min(len(raw), lineBytes)
		all = append(all, script{raw[:n]})
		raw = raw[n:]
	}
	return all
}

// addSeeds adds one script of operations as they come in an honest run, each with args behind what it decides itself, and scripts that
// are mixed from all bytes with the factor.
func addSeeds(f *testing.F, start []byte, ops [][]byte, args []byte, factor byte) {
	f.Helper()
	honest := line(start, nil)
	for _, op := range ops {
		honest = append(honest, line(op, args)...)
	}
	f.Add(honest)
	for seed := range byte(8) {
		mixed := make([]byte, 40*lineBytes)
		for i := range mixed {
			mixed[i] = byte(i*int(factor))*seed + byte(i>>2) + seed
		}
		f.Add(mixed)
	}
}

// tally names the counts that are not zero.
func tally(pairs ...any) string {
	var found []string
	for i := 0; i < len(pairs); i += 2 {
		if count := fmt.Sprint(pairs[i+1]); count != "0" {
			found = append(found, fmt.Sprint(pairs[i], " ", count))
		}
	}
	return strings.Join(found, ", ")
}

func line(op, args []byte) []byte {
	out := append(append(make([]byte, 0, lineBytes), op...), args[:max(0, min(len(args), lineBytes-len(op)))]...)
	return append(out, make([]byte, max(0, lineBytes-len(out)))...)
}

func (s *script) byte() int {
	if len(s.rest) == 0 {
		return 0
	}
	b := s.rest[0]
	s.rest = s.rest[1:]
	return int(b)
}

func (s *script) below(n int) int { return s.byte() % max(1, n) }

func (s *script) yes() bool { return s.byte()%2 == 1 }

// number is mostly small and now and then as odd as numbers get.
func (s *script) number() int64 {
	switch b := s.byte(); {
	case b < 200:
		return int64(b%32) - 2
	case b < 220:
		return 1<<62 + int64(b)
	case b < 240:
		return -1 << 62
	default:
		return int64(b) << 40
	}
}

func (s *script) pause() time.Duration {
	return []time.Duration{0, time.Millisecond, 60 * time.Millisecond, time.Second, 3 * time.Second, 11 * time.Second, time.Minute, time.Hour}[s.below(8)]
}

func (s *script) text(from ...string) string { return from[s.below(len(from))] }
