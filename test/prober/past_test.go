package prober

import (
	"strings"
	"testing"
	"time"
)

// I-9 over a restart of the sidecar: one that lived for the handler timeout may have given up what the one before it left behind, and no
// other.
func TestWhatADeadSidecarLeftIsFreedByTheHandlerTimeoutAlone(t *testing.T) {
	at := func(seconds float64) Moment { return Moment(seconds * float64(time.Second)) }
	span := func(from, to float64) Span { return Span{at(from), at(to)} }
	limit := HandlerTimeout.Seconds()
	died := []Span{span(0, 100), span(100.3, 0)}
	cases := map[string]struct {
		past          Past
		first, second float64
		want          bool
	}{
		"nobody knows what was done":          {Past{}, 99, 150, false},
		"one sidecar":                         {Past{Sidecars: []Span{span(0, 0)}}, 99, 150, false},
		"the next gave it up":                 {Past{Sidecars: died}, 99, 100.4 + limit, true},
		"the next began it at once":           {Past{Sidecars: died}, 99, 100.4, false},
		"the next began it a moment too soon": {Past{Sidecars: died}, 99, 100.2 + limit, false},
		"the next had begun the first itself": {Past{Sidecars: died}, 103, 103 + limit, false},
		"the first was on its way":            {Past{Sidecars: died}, 101, 101 + limit, true},
		"no sidecar lived for long enough": {
			Past{Sidecars: []Span{span(0, 100), span(100.3, 102), span(102.3, 105), span(105.3, 0)}}, 99, 108, false,
		},
		"the third lived for long enough": {
			Past{Sidecars: []Span{span(0, 100), span(100.3, 102), span(102.3, 0)}}, 99, 102.4 + limit, true,
		},
		"the death came later": {Past{Sidecars: []Span{span(0, 200), span(200.3, 0)}}, 99, 150, false},
		"the app was paused with the request in its socket": {
			Past{Sidecars: died, Pauses: []Span{span(99, 110)}}, 110.1, 110.2, true,
		},
		"and was paused again": {
			Past{Sidecars: died, Pauses: []Span{span(99, 110), span(111, 120)}}, 120.1, 120.2, true,
		},
		"the app was paused after the death": {
			Past{Sidecars: died, Pauses: []Span{span(103, 110)}}, 110.1, 110.2, false,
		},
		"the app is still paused": {Past{Sidecars: died, Pauses: []Span{span(99, 0)}}, 110.1, 110.2, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.past.freed(at(c.first), at(c.second)); got != c.want {
				t.Errorf("freed: %t, want %t", got, c.want)
			}
			records := map[string]Record{"a": {SHA256: "hash of a"}}
			ledgers := map[string][]Entry{"w": {
				{At: at(c.first), Boot: "1", Run: 1, MessageID: "a", Attempt: 1, SHA256: "hash of a"},
				{At: at(c.second), Boot: "1", Run: 2, MessageID: "a", Attempt: 2, SHA256: "hash of a"},
			}}
			got := Judge(records, ledgers, map[string]Past{"w": c.past})
			if (got.Beside == 1) != c.want || (len(got.Faults) == 0) != c.want {
				t.Errorf("verdict %+v", got)
			}
			for _, fault := range got.Faults {
				if !strings.HasPrefix(fault, "I-9") {
					t.Errorf("fault %q", fault)
				}
			}
		})
	}
}
