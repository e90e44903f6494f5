package fencing

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

func lease(uid, holder string, transitions int32) LeaseRecord {
	return LeaseRecord{UID: uid, Holder: holder, Transitions: transitions}
}

// What is seen of a Lease, in order, and which processes that shows to be over.
func TestWhatLeasesShow(t *testing.T) {
	type event struct {
		lease   LeaseRecord
		deleted string // UID of the Lease that was deleted, instead
	}
	held := func(uid, boot string, transitions int32) event {
		return event{lease: lease(uid, "pod/"+boot, transitions)}
	}
	for name, c := range map[string]struct {
		events    []event
		wantOver  []string
		wantSight sight
	}{
		"one process": {
			[]event{held("l", "a", 1), held("l", "a", 1)},
			nil, sight{UID: "l", Transitions: 1, Boot: "a"},
		},
		"its successor (B-087)": {
			[]event{held("l", "a", 1), held("l", "b", 2), held("l", "c", 3)},
			[]string{"a", "b"}, sight{UID: "l", Transitions: 3, Boot: "c", Formers: []string{"a", "b"}},
		},
		"an answer that comes late (B-089)": {
			[]event{held("l", "a", 1), held("l", "b", 2), held("l", "a", 1)},
			[]string{"a"}, sight{UID: "l", Transitions: 2, Boot: "b", Formers: []string{"a"}},
		},
		"a backup": {
			[]event{held("l", "b", 2), held("l", "a", 1)},
			nil, sight{UID: "l", Transitions: 2, Boot: "b"},
		},
		"an edit by hand that counts nothing": {
			[]event{held("l", "a", 1), held("l", "b", 1)},
			nil, sight{UID: "l", Transitions: 1, Boot: "a"},
		},
		"a holder that is no process of the pod": {
			[]event{held("l", "a", 1), {lease: lease("l", "other/x", 2)}, {lease: lease("l", "", 3)}, {lease: lease("l", "pod/", 4)}},
			nil, sight{UID: "l", Transitions: 1, Boot: "a"},
		},
		"the deletion": {
			[]event{held("l", "a", 1), {deleted: "l"}, {deleted: "l"}},
			[]string{"a"}, sight{UID: "l", Transitions: 1, Boot: "a", Deleted: true},
		},
		"the deletion of the Lease before this one": {
			[]event{held("k", "a", 1), held("l", "b", 1), {deleted: "k"}},
			[]string{"a"}, sight{UID: "l", Transitions: 1, Boot: "b", Formers: []string{"a"}},
		},
		"a deletion, and the next process": {
			[]event{held("k", "a", 4), {deleted: "k"}, held("l", "b", 1)},
			[]string{"a"}, sight{UID: "l", Transitions: 1, Boot: "b", Formers: []string{"a"}},
		},
		"an answer of before the deletion": {
			[]event{held("k", "a", 4), {deleted: "k"}, held("k", "a", 4)},
			[]string{"a"}, sight{UID: "k", Transitions: 4, Boot: "a", Deleted: true},
		},
		"a deletion and a new Lease in one": {
			[]event{held("k", "a", 4), held("l", "b", 1)},
			[]string{"a"}, sight{UID: "l", Transitions: 1, Boot: "b", Formers: []string{"a"}},
		},
		"the deletion of what was never seen": {
			[]event{{deleted: "l"}}, nil, sight{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var s sight
			var over []string
			for _, e := range c.events {
				var ended string
				if e.deleted != "" {
					s, ended = s.deleted(e.deleted)
				} else {
					s, ended = s.see("pod", e.lease)
				}
				if ended != "" {
					over = append(over, ended)
				}
			}
			if diff := cmp.Diff(c.wantSight, s); diff != "" {
				t.Errorf("sight (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.wantOver, over); diff != "" {
				t.Errorf("over (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFormerProcessesAreBounded(t *testing.T) {
	var s sight
	for n := range int32(100) {
		s, _ = s.see("pod", lease("l", fmt.Sprintf("pod/%d", n), n+1))
	}
	if len(s.Formers) != formerBoots || s.Formers[formerBoots-1] != "98" {
		t.Errorf("%v is remembered", s.Formers)
	}
}

// What a process "b" is told, by what was seen of the Lease of its pod and by what comes of a look at it.
func TestWhoMayBind(t *testing.T) {
	const admitted, ask = "admitted", "ask"
	lost, later := string(protocol.RefusedSuperseded)+" ", string(protocol.RefusedUnavailable)+" "
	none, mine, other := sight{}, sight{UID: "l", Transitions: 2, Boot: "b", Formers: []string{"a"}}, sight{UID: "l", Transitions: 1, Boot: "a"}
	successor := sight{UID: "l", Transitions: 3, Boot: "c", Formers: []string{"a", "b"}}
	deleted, othersDeleted := mine, other
	deleted.Deleted, othersDeleted.Deleted = true, true
	type answers map[look]string
	for name, c := range map[string]struct {
		seen sight
		want answers
	}{
		"it holds the Lease": {mine, answers{notLooked: admitted}},
		"a newer one holds the Lease": {successor, answers{
			notLooked: lost + string(transport.LabelLeaseHeld), lookSilent: lost + string(transport.LabelLeaseHeld),
		}},
		"nothing was seen": {none, answers{
			notLooked: ask, lookFound: later + string(transport.LabelLeaseMissing), lookAbsent: later + string(transport.LabelLeaseMissing),
			lookSilent: admitted, lookLimited: later + string(transport.LabelUnavailable),
		}},
		"another one holds the Lease, as far as was seen": {other, answers{
			notLooked: ask, lookFound: lost + string(transport.LabelLeaseHeld), lookAbsent: later + string(transport.LabelLeaseMissing),
			lookSilent: admitted, lookLimited: later + string(transport.LabelUnavailable),
		}},
		"its Lease was deleted": {deleted, answers{
			notLooked: ask, lookAbsent: lost + string(transport.LabelLeaseDeleted), lookSilent: lost + string(transport.LabelLeaseDeleted),
			lookLimited: later + string(transport.LabelUnavailable),
		}},
		"the Lease of the one before was deleted": {othersDeleted, answers{
			notLooked: ask, lookAbsent: later + string(transport.LabelLeaseMissing), lookSilent: admitted,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for now, want := range c.want {
				j, got := judgeIncarnation("b", c.seen, now), admitted
				switch {
				case j.ask:
					got = ask
				case j.refusal != nil:
					got = string(j.refusal.Code) + " " + string(j.refusal.Label)
				}
				if got != want {
					t.Errorf("look %d: %s, want %s", now, got, want)
				}
				if j.refusal != nil && (j.refusal.RetryAfter <= 0 || j.refusal.Reason == "") {
					t.Errorf("look %d: %+v says neither why nor when to ask again", now, j.refusal)
				}
			}
		})
	}
}

// Who may write a Lease may write a megabyte into it. None of that is kept, or one worker would make the record of all too large to be read.
func TestAHolderThatNoProcessCanBeTellsNothing(t *testing.T) {
	for name, boot := range map[string]string{
		"too long": strings.Repeat("x", protocol.MaxIDBytes+1), "none": "", "with a control character": "a\x00b", "no text": "a\xff",
	} {
		before := sight{UID: "lease", Transitions: 1, Boot: "first"}
		after, ended := before.see("pod", LeaseRecord{UID: "lease", Holder: "pod/" + boot, Transitions: 2})
		if ended != "" || !cmp.Equal(before, after) {
			t.Errorf("%s: %q is over, and %d bytes are held by %.20q", name, ended, len(after.Boot), after.Boot)
		}
	}
}
