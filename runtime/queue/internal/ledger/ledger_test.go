package ledger

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// The rules themselves are tested by queuetest through every back-end; here is what no back-end can reach in a test.

type empty struct{ err error }

func (v empty) ByID(string) (Entry, bool, error)      { return Entry{}, false, v.err }
func (v empty) BySequence(int64) (Entry, bool, error) { return Entry{}, false, v.err }

func checked(t *testing.T, b queue.Batch) Batch {
	t.Helper()
	c, err := Check(b)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func stores(ids ...string) (requests []queue.StoreRequest) {
	for _, id := range ids {
		requests = append(requests, queue.StoreRequest{Job: protocol.Job{MessageID: id, Payload: []byte("x")}})
	}
	return requests
}

// The sequence space ends at protocol.MaxSequence; the last sequence is used, none after it (G-045, B-205).
func TestSequenceSpaceEnds(t *testing.T) {
	cursor := int64(protocol.MaxSequence - 2)
	two := checked(t, queue.Batch{Cursor: cursor, Stores: stores("a", "b")})
	plan, err := Apply(empty{}, cursor, two, time.Now())
	if err != nil || plan.Result.Cursor != protocol.MaxSequence {
		t.Fatalf("cursor %d, error %v, want %d", plan.Result.Cursor, err, int64(protocol.MaxSequence))
	}
	three := checked(t, queue.Batch{Cursor: cursor, Stores: stores("a", "b", "c")})
	if plan, err := Apply(empty{}, cursor, three, time.Now()); !errors.Is(err, queue.ErrConflict) || plan.Changes != nil {
		t.Errorf("error %v, want conflict; changes %v", err, plan.Changes)
	}
}

// An error of the store's look-up is handed on unchanged (G-134).
func TestLookupErrorsAreHandedOn(t *testing.T) {
	failure := errors.New("disk")
	ref := queue.JobRef{MessageID: "a", StoreSeq: 1}
	for name, b := range map[string]queue.Batch{
		"store": {Stores: stores("a")}, "accept": {Accepts: []queue.JobRef{ref}}, "confirm": {Confirms: []queue.JobRef{ref}},
		"attempt": {Attempts: []queue.AttemptRecord{{JobRef: ref}}}, "dead letter": {DeadLetters: []queue.DeadLetterRequest{{JobRef: ref}}},
	} {
		if _, err := Apply(empty{failure}, 5, checked(t, b), time.Now()); !errors.Is(err, failure) {
			t.Errorf("%s: error %v, want %v", name, err, failure)
		}
	}
	if _, err := Redrive(empty{failure}, ref); !errors.Is(err, failure) {
		t.Errorf("redrive: error %v, want %v", err, failure)
	}
}

// A checked batch is the store's own: what the caller does to its slices afterwards does not reach it.
func TestCheckTakesOver(t *testing.T) {
	b := queue.Batch{Stores: stores("a"), Accepts: []queue.JobRef{{MessageID: "a", StoreSeq: 1}}}
	c := checked(t, b)
	b.Stores[0].Job.MessageID, b.Accepts[0].MessageID = "b", "b"
	plan, err := Apply(empty{}, 0, c, time.Now())
	if err != nil || plan.Changes[0].After.MessageID != "a" || !plan.Changes[0].After.Accepted {
		t.Errorf("changes %+v, error %v", plan.Changes, err)
	}
}

func TestCutText(t *testing.T) {
	for name, text := range map[string]string{
		"short": "ok", "exact": strings.Repeat("x", protocol.MaxReasonBytes), "long": strings.Repeat("x", 5000),
		"wide": "x" + strings.Repeat("✓", 2000), "broken": strings.Repeat("\xff\xfe", 2000), "empty": "",
	} {
		got := CutText(text)
		if len(got) > protocol.MaxReasonBytes || !utf8.ValidString(got) {
			t.Errorf("%s: %d bytes, valid %v", name, len(got), utf8.ValidString(got))
		}
		if utf8.ValidString(text) && !strings.HasPrefix(text, got) {
			t.Errorf("%s: not a prefix", name)
		}
		if len(text) <= protocol.MaxReasonBytes && utf8.ValidString(text) && got != text {
			t.Errorf("%s: changed without need", name)
		}
	}
}

// A tombstone is kept for the whole window, to the nanosecond, and not longer.
func TestExpired(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	tombstone := Entry{Status: Confirmed, Accepted: true, Since: since}
	for _, c := range []struct {
		name  string
		entry Entry
		after time.Duration
		want  bool
	}{
		{"just before the end of the window", tombstone, time.Hour - 1, false},
		{"at the end of the window", tombstone, time.Hour, true},
		{"after it", tombstone, time.Hour + 1, true},
		{"never accepted", Entry{Status: Confirmed, Since: since}, 2 * time.Hour, false},
		{"not settled", Entry{Status: DeadLettered, Accepted: true, Since: since}, 2 * time.Hour, false},
	} {
		if got := c.entry.Expired(since.Add(c.after), time.Hour); got != c.want {
			t.Errorf("%s: expired %v, want %v", c.name, got, c.want)
		}
	}
}

// A plan knows nothing of a released one whose memory it has, whatever their sizes.
func TestAReleasedPlanLeavesNothing(t *testing.T) {
	ids := make([]string, 50)
	for i := range ids {
		ids[i] = strconv.Itoa(i)
	}
	for round := range 3 {
		for _, n := range []int{len(ids), 2, 16, 17, 1} {
			plan, err := Apply(empty{}, 5, checked(t, queue.Batch{Cursor: 5, Stores: stores(ids[:n]...)}), time.Now())
			if err != nil || len(plan.Changes) != n || plan.Result.Cursor != int64(5+n) {
				t.Fatalf("round %d: %d changes for %d jobs, cursor %d, error %v", round, len(plan.Changes), n, plan.Result.Cursor, err)
			}
			for i, change := range plan.Changes {
				if change.After.MessageID != ids[i] || !change.New() || change.Job != i {
					t.Fatalf("round %d, %d jobs: change %d is %+v", round, n, i, change)
				}
			}
			plan.Release()
		}
	}
}
