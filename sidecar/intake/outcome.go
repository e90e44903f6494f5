package intake

import (
	"encoding/json"
	"strconv"
)

// outcome is the answer about one job.
type outcome struct {
	ID       string `json:"id"`
	Sequence int64  `json:"sequence,omitempty"`
	// State is stored, confirmed, dead-lettered or dropped.
	State string `json:"state,omitempty"`
	// New is false for a repeat of an id that was known already.
	New bool `json:"new"`

	// Status and Problem are set in the answers to a batch and to a stream only.
	Status  int      `json:"status,omitempty"`
	Problem *problem `json:"problem,omitempty"`
}

// lineOutcome is the answer to one line.
type lineOutcome struct {
	// Line counts from 1, blank lines included, which have no answer.
	Line int `json:"line"`
	outcome
}

// appendTo appends what json.Marshal makes of it: there is one for each job.
func (o *outcome) appendTo(out []byte) []byte { return o.appendMembers(append(out, '{')) }

// appendTo is outcome.appendTo.
func (l *lineOutcome) appendTo(out []byte) []byte {
	out = append(out, `{"line":`...)
	out = strconv.AppendInt(out, int64(l.Line), 10)
	return l.appendMembers(append(out, ','))
}

func (o *outcome) appendMembers(out []byte) []byte {
	out = appendText(append(out, `"id":`...), o.ID)
	if o.Sequence != 0 {
		out = strconv.AppendInt(append(out, `,"sequence":`...), o.Sequence, 10)
	}
	if o.State != "" {
		out = appendText(append(out, `,"state":`...), o.State)
	}
	out = strconv.AppendBool(append(out, `,"new":`...), o.New)
	if o.Status != 0 {
		out = strconv.AppendInt(append(out, `,"status":`...), int64(o.Status), 10)
	}
	if o.Problem != nil {
		out = append(append(out, `,"problem":`...), marshal(o.Problem)...)
	}
	return append(out, '}')
}

// appendText appends a JSON string. Most ids need no escaping.
func appendText(out []byte, text string) []byte {
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return append(out, marshal(text)...)
		}
	}
	return append(append(append(out, '"'), text...), '"')
}

// marshal writes one of the plain values of this package, which cannot fail.
func marshal(value any) []byte {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return raw
}
