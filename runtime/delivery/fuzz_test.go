package delivery

import (
	"time"
)

// script turns fuzzed bytes into decisions. A script that has ended decides zero for ever.
type script struct{ rest []byte }

func (s *script) more() bool { return len(s.rest) > 0 }

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

// fuzzLength bounds a script: longer ones say nothing that a shorter one could not.
const fuzzLength = 2000
