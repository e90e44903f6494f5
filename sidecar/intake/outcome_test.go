package intake

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzOutcome writes any answer as encoding/json does.
func FuzzOutcome(f *testing.F) {
	f.Add("/source|id", int64(7), "stored", true, 201, "", 3)
	f.Add("<a&b>\u2028\x7f\"\\\n\xff", int64(0), "", false, 0, "detail", 0)
	f.Add("ä", int64(-1), "dead-lettered", false, 409, "<detail>", -1)
	f.Fuzz(func(t *testing.T, id string, sequence int64, state string, fresh bool, status int, detail string, line int) {
		answer := lineOutcome{Line: line, outcome: outcome{ID: id, Sequence: sequence, State: state, New: fresh, Status: status}}
		if detail != "" {
			p := kindInvalid.because(detail)
			answer.Problem = &p
		}
		check := func(got []byte, value any) {
			if want, err := json.Marshal(value); err != nil || !bytes.Equal(got, want) {
				t.Errorf("got %s, want %s, %v", got, want, err)
			}
		}
		check(answer.appendTo(nil), answer)
		check(answer.outcome.appendTo(nil), answer.outcome)
	})
}
