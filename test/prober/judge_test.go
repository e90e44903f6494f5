package prober

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// script writes a ledger: "a" begins the job a, "a+" ends its oldest run well, "a-" badly, "!" is a kill of the app. Each word takes one
// moment, from offset on.
func script(offset Moment, words string) []Entry {
	var out []Entry
	type open struct {
		id  string
		run uint64
	}
	var running []open
	boot, runs := 1, uint64(0)
	for i, word := range strings.Fields(words) {
		e := Entry{At: offset + Moment(i), Boot: fmt.Sprint(boot)}
		id := strings.TrimRight(word, "+-")
		switch {
		case word == "!":
			boot, running = boot+1, nil
			continue
		case id == word:
			runs++
			running = append(running, open{id, runs})
			e.Run, e.MessageID, e.Attempt, e.SHA256 = runs, id, 1, "hash of "+id
		default:
			at := slices.IndexFunc(running, func(o open) bool { return o.id == id })
			e.Run, e.Status = running[at].run, 204
			running = slices.Delete(running, at, at+1)
			if strings.HasSuffix(word, "-") {
				e.Status = 500
			}
		}
		out = append(out, e)
	}
	return out
}

func TestJudge(t *testing.T) {
	confirmed := func(id string) Record {
		return Record{SHA256: "hash of " + id, Accepted: true, State: "confirmed", SettledAt: 1000}
	}
	with := func(r Record, change func(*Record)) Record {
		change(&r)
		return r
	}
	dead := func(r *Record) { r.State = "dead-lettered" }
	cases := map[string]struct {
		records map[string]Record
		workers map[string]string
		want    Verdict
		faults  string // a part of each
	}{
		"a job that ran once": {
			map[string]Record{"a": confirmed("a")}, map[string]string{"w": "a a+"},
			Verdict{Submitted: 1, Accepted: 1, Confirmed: 1, Effects: 1, Runs: 1}, "",
		},
		"a failure, a kill, and the end elsewhere": {
			map[string]Record{"a": confirmed("a")}, map[string]string{"v": "a a- a !", "w": "a a+"},
			Verdict{Submitted: 1, Accepted: 1, Confirmed: 1, Effects: 1, Runs: 3, Reruns: 2, Repeats: 1, Unfinished: 1}, "",
		},
		"two workers at once": {
			map[string]Record{"a": confirmed("a")}, map[string]string{"v": "a a+", "w": "a a+"},
			Verdict{Submitted: 1, Accepted: 1, Confirmed: 1, Effects: 1, Runs: 2, Reruns: 1}, "",
		},
		"one worker twice at once": {
			map[string]Record{"a": confirmed("a")}, map[string]string{"w": "a a a+ a+"},
			Verdict{Submitted: 1, Accepted: 1, Confirmed: 1, Effects: 1, Runs: 2, Reruns: 1, Together: 1}, "I-9",
		},
		"one worker again after its app was killed": {
			map[string]Record{"a": confirmed("a")}, map[string]string{"w": "a ! a a+"},
			Verdict{Submitted: 1, Accepted: 1, Confirmed: 1, Effects: 1, Runs: 2, Reruns: 1, Unfinished: 1}, "",
		},
		"confirmed without an end": {
			map[string]Record{"a": confirmed("a")}, map[string]string{"w": "a a- a"},
			Verdict{Submitted: 1, Accepted: 1, Runs: 2, Reruns: 1, Unfinished: 1, Lost: 1}, "no run of it ended well",
		},
		"confirmed without a run": {
			map[string]Record{"a": confirmed("a")}, nil, Verdict{Submitted: 1, Accepted: 1, Lost: 1}, "no run of it ended well",
		},
		"confirmed with another content": {
			map[string]Record{"a": with(confirmed("a"), func(r *Record) { r.SHA256 = "x" })}, map[string]string{"w": "a a+"},
			Verdict{Submitted: 1, Accepted: 1, Runs: 1, Lost: 1}, "a",
		},
		"run after its confirmation": {
			map[string]Record{"a": with(confirmed("a"), func(r *Record) { r.SettledAt = 11 })}, map[string]string{"w": "a a+ a a+"},
			Verdict{Submitted: 1, Accepted: 1, Confirmed: 1, Effects: 1, Runs: 2, Reruns: 1, Repeats: 1, Late: 1}, "",
		},
		"forgotten": {
			map[string]Record{"a": with(confirmed("a"), func(r *Record) { r.State = "vanished" })}, map[string]string{"w": "a a+"},
			Verdict{Submitted: 1, Accepted: 1, Runs: 1, Lost: 1}, "vanished",
		},
		"forgotten when its time was over": {
			map[string]Record{"a": with(confirmed("a"), func(r *Record) { r.State, r.SettledAt = "vanished", 11+Moment(DeduplicationWindow) })},
			map[string]string{"w": "a a+"}, Verdict{Submitted: 1, Accepted: 1, Forgotten: 1, Effects: 1, Runs: 1}, "",
		},
		"never accepted": {
			map[string]Record{"a": {SHA256: "hash of a"}}, map[string]string{"w": "a a+"}, Verdict{Submitted: 1, Runs: 1}, "",
		},
		"a dead letter that always fails": {
			map[string]Record{"a-poison": with(confirmed("a-poison"), dead)}, map[string]string{"w": "a-poison a-poison- a-poison a-poison-"},
			Verdict{Submitted: 1, Accepted: 1, DeadLetters: 1, Runs: 2, Reruns: 1}, "",
		},
		"a dead letter that need not be": {
			map[string]Record{"a": with(confirmed("a"), dead)}, map[string]string{"w": "a a-"},
			Verdict{Submitted: 1, Accepted: 1, Runs: 1, Lost: 1}, "became a dead letter",
		},
		"nobody's job": {nil, map[string]string{"w": "a a+"}, Verdict{}, "nobody submitted"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ledgers := map[string][]Entry{}
			for worker, words := range c.workers {
				ledgers[worker] = script(10, words)
			}
			got := Judge(c.records, ledgers, nil)
			faults := got.Faults
			got.Faults, got.LateRuns = nil, nil
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
			if (c.faults == "") != (len(faults) == 0) {
				t.Errorf("faults: %q, want such as %q", faults, c.faults)
			}
			for _, f := range faults {
				if !strings.Contains(f, c.faults) {
					t.Errorf("fault %q, want one such as %q", f, c.faults)
				}
			}
		})
	}
}

func TestARunThatAcceptedTooLittleFails(t *testing.T) {
	for accepted, good := range map[int]bool{0: false, 599: false, 600: true, 20_000: true} {
		if err := (Verdict{Accepted: accepted}).Enough(time.Minute, 10); (err == nil) != good {
			t.Errorf("%d jobs in a minute: %v", accepted, err)
		}
	}
}

func TestLedgerIsReadBack(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenJournal(dir + "/w" + LedgerSuffix)
	if err != nil {
		t.Fatal(err)
	}
	want := []Entry{{Boot: "b", Run: 1, MessageID: "a", Attempt: 2, SHA256: "h"}, {Boot: "b", Run: 1, Status: 204}}
	for _, e := range want {
		if err := l.write(e); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadLedgers(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got["w"][0].At == 0 || got["w"][1].At < got["w"][0].At {
		t.Errorf("the times are %v", got["w"])
	}
	for i := range got["w"] {
		got["w"][i].At = 0
	}
	if diff := cmp.Diff(map[string][]Entry{"w": want}, got); diff != "" {
		t.Errorf("ledgers (-want +got):\n%s", diff)
	}
	if err := readLines(strings.NewReader(`{"boot":"b"`), func(Entry) {}); err == nil {
		t.Error("a torn line was taken")
	}
}

func TestTakeovers(t *testing.T) {
	records := map[string]Record{"old": {SubmittedAt: 5}, "new": {SubmittedAt: 21}, "newer": {SubmittedAt: 32}}
	ledgers := map[string][]Entry{"v": script(10, "old old- ! old old+"), "w": script(30, "old new old+ new+ newer")}
	// The first kill is followed by runs of a job that another producer may have dispatched; the last by nothing new.
	got := Takeovers([]Moment{20, 31, 51}, records, ledgers)
	if diff := cmp.Diff([]time.Duration{11, 3}, got); diff != "" {
		t.Errorf("takeovers (-want +got):\n%s", diff)
	}
}
