package fencing

import (
	"errors"
	"testing"
	"time"
)

func TestWayOf(t *testing.T) {
	now := time.Unix(1_900_000_000, 0)
	trouble := errors.New("away")
	known := ringState{set: new(keySet), issuer: testIssuer, read: now.Add(-time.Hour)}
	with := func(edit func(*ringState)) ringState {
		state := known
		edit(&state)
		return state
	}
	for name, c := range map[string]struct {
		state      ringState
		unreviewed bool
		want       Way
		told       bool
	}{
		"not asked yet":              {ringState{}, false, "", false},
		"offline":                    {known, false, Offline, false},
		"offline, no reviews":        {known, true, Offline, false},
		"the API server is away":     {with(func(s *ringState) { s.trouble = trouble }), false, Offline, true},
		"away for a day":             {with(func(s *ringState) { s.trouble, s.read = trouble, now.Add(-keysTrusted) }), false, "", true},
		"away from the start":        {ringState{trouble: trouble}, false, "", true},
		"reviews":                    {ringState{trouble: trouble, denied: true}, false, Reviewed, true},
		"neither":                    {ringState{trouble: trouble, denied: true}, true, Nowise, true},
		"keys withdrawn":             {with(func(s *ringState) { s.trouble, s.denied = trouble, true }), false, Reviewed, true},
		"keys and reviews withdrawn": {with(func(s *ringState) { s.trouble, s.denied = trouble, true }), true, Offline, true},
	} {
		if way, message := wayOf(c.state, now, c.unreviewed); way != c.want || (message != "") != c.told {
			t.Errorf("%s: %q, %q", name, way, message)
		}
	}
}

// B-091: what an earlier process saw never goes against evidence.
func TestWeigh(t *testing.T) {
	type object struct{ from string }
	watched, live, seen := &object{"watch"}, &object{"answer"}, &object{"file"}
	for name, c := range map[string]struct {
		evidence evidence[*object]
		want     *object
		decided  bool
	}{
		"the watch is enough":                    {evidence[*object]{watched: watched, filled: true}, watched, true},
		"the answer before the watch":            {evidence[*object]{watched: watched, filled: true, answer: found, live: live, lastSeen: seen}, live, true},
		"the answer before the file":             {evidence[*object]{answer: found, live: live, lastSeen: seen}, live, true},
		"positively gone":                        {evidence[*object]{answer: absent, lastSeen: seen}, nil, true},
		"positively gone, and still watched":     {evidence[*object]{watched: watched, filled: true, answer: absent}, nil, true},
		"silence, the file knows":                {evidence[*object]{answer: silent, lastSeen: seen}, seen, true},
		"silence, the file knows nothing":        {evidence[*object]{answer: silent}, nil, false},
		"silence, a complete watch without it":   {evidence[*object]{filled: true, answer: silent, lastSeen: seen}, nil, false},
		"silence, the watch knows another":       {evidence[*object]{watched: watched, filled: true, answer: silent, lastSeen: seen}, nil, false},
		"silence, a watch that is being filled":  {evidence[*object]{watched: watched, answer: silent}, nil, false},
		"silence, partial watch and a last word": {evidence[*object]{watched: watched, answer: silent, lastSeen: seen}, seen, true},
	} {
		if got, decided := weigh(c.evidence); got != c.want || decided != c.decided {
			t.Errorf("%s: %v, %v", name, got, decided)
		}
	}
}
