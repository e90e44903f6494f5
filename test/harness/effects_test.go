package harness

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestJudge(t *testing.T) {
	document := func(id string) Document { return Document{ID: id, Content: []byte(id)} }
	effect := func(id string, started, finished int) Effect {
		e := Effect{MessageID: "m-" + id, EventID: id, Started: started, Finished: finished}
		if finished > 0 {
			e.Analysis = &struct {
				SHA256 string `json:"sha256"`
			}{document(id).SHA256()}
		}
		return e
	}
	wrong := effect("a", 1, 1)
	wrong.Analysis.SHA256 = "other"
	split := effect("a", 1, 1)
	split.MessageID = "another"

	cases := map[string]struct {
		effects []Effect
		want    Verdict
		clean   bool
	}{
		"all there":             {[]Effect{effect("a", 1, 1), effect("b", 1, 1)}, Verdict{Submitted: 2, Effects: 2}, true},
		"delivered again":       {[]Effect{effect("a", 3, 2), effect("b", 1, 1)}, Verdict{Submitted: 2, Effects: 2, Redelivered: 2, Duplicates: 1}, true},
		"one never started":     {[]Effect{effect("a", 1, 1)}, Verdict{Submitted: 2, Effects: 1, Lost: 1}, false},
		"one never finished":    {[]Effect{effect("a", 1, 1), effect("b", 1, 0)}, Verdict{Submitted: 2, Effects: 1, Lost: 1}, false},
		"wrong content":         {[]Effect{wrong, effect("b", 1, 1)}, Verdict{Submitted: 2, Effects: 1, Wrong: 1}, false},
		"under two message ids": {[]Effect{effect("a", 1, 1), split, effect("b", 1, 1)}, Verdict{Submitted: 2, Effects: 2, Split: 1}, false},
		"nobody's effect":       {[]Effect{effect("a", 1, 1), effect("b", 1, 1), effect("c", 1, 1)}, Verdict{Submitted: 2, Effects: 2, Foreign: 1}, false},
		"nothing happened":      {nil, Verdict{Submitted: 2, Lost: 2}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Judge([]Document{document("a"), document("b")}, c.effects)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
			if got.Clean() != c.clean {
				t.Errorf("clean = %t, want %t", got.Clean(), c.clean)
			}
		})
	}
}
