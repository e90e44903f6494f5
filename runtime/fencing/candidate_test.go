package fencing_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/runtime/fencing"
	"github.com/workpulling/workpulling/runtime/queue"
)

const (
	silence  = 10 * time.Second
	beat     = 500 * time.Millisecond
	patience = 3 * time.Second
)

func memberNamed(name string, turn int64) fencing.Member {
	return fencing.Member{Pod: name, PodUID: name + "-uid", BootNonce: name + "-boot", Turn: turn, Intake: name + ":9444", Streams: name + ":9443"}
}

var (
	me    = memberNamed("me", 0)
	owner = memberNamed("owner", 3)
)

// alive is the answer of an owner that works.
func alive(m fencing.Member) fencing.Answer {
	return fencing.Answer{Heard: true, PodUID: m.PodUID, BootNonce: m.BootNonce, Turn: m.Turn}
}

// table drives a Candidate beat by beat.
type table struct {
	*fencing.Candidate
	now    fencing.Now
	owner  queue.Owner
	lease  fencing.LeaseRecord
	apiErr error
	err    error
	// queueTakes and apiTakes are how long their answers, or errors, are waited for.
	queueTakes, apiTakes time.Duration
}

func newTable() *table {
	c := fencing.NewCandidate(fencing.CandidateConfig{Self: me, Silence: silence, Beat: beat, Patience: patience, Random: func() float64 { return 0.5 }})
	return &table{
		Candidate: c, now: time.Second, owner: queue.Owner{Epoch: 7, Address: owner.Owner()},
		lease: fencing.LeaseRecord{Holder: owner.Holder(), Version: "1"},
	}
}

// look is one beat in which the owner answers so; nil for not being asked.
func (t *table) look(a *fencing.Answer) fencing.Decision {
	t.now += beat + t.queueTakes
	t.OwnerRead(t.now, t.owner, t.err)
	if known, _, _, ok := t.Owner(); ok && a != nil {
		t.Asked(t.now, known, *a)
	}
	t.now += t.apiTakes
	t.LeaseRead(t.now, t.lease, t.apiErr)
	return t.Decide(t.now)
}

func TestCandidate(t *testing.T) {
	well, refused, nothing := alive(owner), fencing.Answer{Refused: true}, fencing.Answer{}
	restarted := alive(owner)
	restarted.BootNonce, restarted.Turn = "another boot", 0
	gaveUp := alive(owner)
	gaveUp.Turn = 0
	troubled := alive(owner)
	troubled.Troubled = silence
	for name, c := range map[string]struct {
		edit func(*table)
		// answers come one a beat; the decision after the last counts.
		answers []fencing.Answer
		want    fencing.Act
		why     string
	}{
		"an owner that answers":          {nil, repeat(well, 60), fencing.Wait, "owns the queue"},
		"one refusal is no evidence":     {nil, []fencing.Answer{well, refused}, fencing.Wait, ""},
		"two refusals are":               {nil, []fencing.Answer{well, refused, refused}, fencing.Acquire, "nothing listens"},
		"an answer between two refusals": {nil, []fencing.Answer{well, refused, well, refused}, fencing.Wait, ""},
		"no answer, for a while":         {nil, append(repeat(well, 3), repeat(nothing, 19)...), fencing.Wait, ""},
		"no answer, for too long":        {nil, append(repeat(well, 3), repeat(nothing, 20)...), fencing.Acquire, "no sign of life for 10s"},
		"another process in its place":   {nil, []fencing.Answer{well, restarted}, fencing.Acquire, "another process"},
		"an owner that gave up":          {nil, []fencing.Answer{well, gaveUp}, fencing.Acquire, "gave up"},
		"an owner without its queue":     {nil, append(repeat(well, 30), troubled), fencing.Acquire, "does not work for it"},
		"an owner without its queue, just after an outage that both saw": {
			func(tt *table) { tt.err = errors.New("down"); tt.look(nil); tt.err = nil }, []fencing.Answer{troubled}, fencing.Wait, "",
		},
		"a queue that nobody has loaded": {
			func(tt *table) { tt.owner, tt.lease.Holder = queue.Owner{}, "" }, repeat(nothing, 1), fencing.Acquire, "nobody has loaded",
		},
		"an owner that is no member, at first": {func(tt *table) { tt.owner.Address = "text" }, repeat(nothing, 10), fencing.Wait, ""},
		"an owner that is no member, later":    {func(tt *table) { tt.owner.Address = "text" }, repeat(nothing, 25), fencing.Acquire, "no sign of life"},
		"the process before this one in the same pod": {
			func(tt *table) {
				before := me
				before.BootNonce, before.Turn = "earlier", 1
				tt.owner.Address, tt.lease.Holder = before.Owner(), before.Holder()
			}, repeat(nothing, 1), fencing.Acquire, "same pod",
		},
		"an earlier turn of this process": {
			func(tt *table) { tt.owner.Address, tt.lease.Holder = memberNamed("me", 1).Owner(), me.Holder() }, repeat(nothing, 1), fencing.Load, "this process",
		},
		"a queue that cannot be read takes nothing from nobody": {
			func(tt *table) { tt.err = errors.New("no route") }, repeat(refused, 60), fencing.Wait, "cannot be read: no route",
		},
		"the Lease is mine": {
			func(tt *table) { tt.lease.Holder = me.Holder() }, []fencing.Answer{refused, refused}, fencing.Load, "",
		},
		"the Lease is another standby's": {
			func(tt *table) { tt.lease.Holder = "third" }, []fencing.Answer{refused, refused}, fencing.Wait, "third holds the Lease",
		},
		"the Lease was another standby's for too long": {
			func(tt *table) { tt.lease.Holder = "third" }, repeat(refused, 25), fencing.Acquire, "",
		},
		"the Lease is released": {
			func(tt *table) { tt.lease.Holder = "" }, []fencing.Answer{gaveUp}, fencing.Acquire, "",
		},
		"the Lease is lost and its owner answers (B-253)": {
			func(tt *table) { tt.lease.Holder = "" }, repeat(well, 60), fencing.Wait, "owns the queue",
		},
		"no API server, and chance has not come yet (B-252)": {
			func(tt *table) { tt.apiErr = errors.New("away") }, []fencing.Answer{refused, refused}, fencing.Wait, "chance",
		},
		"no API server, and chance has come (B-252)": {
			func(tt *table) { tt.apiErr = errors.New("away") }, repeat(refused, 4), fencing.Load, "API server does not answer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt := newTable()
			if c.edit != nil {
				c.edit(tt)
			}
			var got fencing.Decision
			for i := range c.answers {
				got = tt.look(&c.answers[i])
			}
			if got.Act != c.want || !strings.Contains(got.Why, c.why) {
				t.Errorf("%d %q, want %d %q", got.Act, got.Why, c.want, c.why)
			}
		})
	}
}

func repeat(a fencing.Answer, n int) []fencing.Answer {
	out := make([]fencing.Answer, n)
	for i := range out {
		out[i] = a
	}
	return out
}

// A renewal of the Lease is a sign of life where the owner cannot be reached: it may be partitioned from its peers alone (B-256).
func TestARenewedLeaseIsASignOfLife(t *testing.T) {
	tt := newTable()
	nothing := fencing.Answer{}
	for i := range 100 {
		if i%5 == 0 {
			tt.lease.Version += "x"
		}
		if got := tt.look(&nothing); got.Act != fencing.Wait {
			t.Fatalf("beat %d: %+v", i, got)
		}
	}
	for range 19 {
		tt.look(&nothing)
	}
	if got := tt.look(&nothing); got.Act != fencing.Acquire {
		t.Errorf("%+v after the renewals ended", got)
	}
}

// The deletion of the owner's pod is evidence at once; that of another pod is none.
func TestADeletedPodIsEvidence(t *testing.T) {
	tt := newTable()
	nothing := fencing.Answer{}
	tt.look(&nothing)
	tt.PodGone("somebody else")
	if got := tt.look(&nothing); got.Act != fencing.Wait {
		t.Errorf("%+v", got)
	}
	tt.PodGone(owner.PodUID)
	if got := tt.look(&nothing); got.Act != fencing.Acquire || !strings.Contains(got.Why, "deleted") {
		t.Errorf("%+v", got)
	}
}

// A member that was itself paused has heard nothing because of that, and grants a full period.
func TestAPauseOfThisProcessIsNoSilenceOfTheOwner(t *testing.T) {
	tt := newTable()
	nothing := fencing.Answer{}
	tt.look(&nothing)
	tt.now += time.Hour
	if got := tt.look(&nothing); got.Act != fencing.Wait {
		t.Errorf("%+v", got)
	}
}

// To wait for answers that do not come is no pause: a standby in front of an API server and an owner that are both in a black hole
// takes over all the same, and so does one whose queue is slow (B-252).
func TestSlowLooksAreNoPause(t *testing.T) {
	for name, c := range map[string]struct {
		queue, api time.Duration
		answer     fencing.Answer
		within     time.Duration
	}{
		"no answer of the API server and none of the owner":  {0, 2010 * time.Millisecond, fencing.Answer{}, silence + 5*time.Second},
		"no answer of the API server, and the owner refuses": {0, 2010 * time.Millisecond, fencing.Answer{Refused: true}, 8 * time.Second},
		"a slow queue and no answer of the owner":            {2900 * time.Millisecond, 0, fencing.Answer{}, silence + 7*time.Second},
		"all of it": {2900 * time.Millisecond, 2010 * time.Millisecond, fencing.Answer{}, silence + 12*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			tt := newTable()
			well := alive(owner)
			tt.look(&well)
			tt.queueTakes, tt.apiTakes = c.queue, c.api
			if c.api > 0 {
				tt.apiErr = errors.New("no answer")
			}
			from := tt.now
			for tt.look(&c.answer).Act == fencing.Wait {
				if tt.now-from > 5*time.Minute {
					t.Fatal("it never takes over")
				}
			}
			if took := tt.now - from; took > c.within {
				t.Errorf("it takes over after %v, want %v at most", took, c.within)
			}
		})
	}
}

// What loses the queue stands back, for longer each time, so that two members do not fence each other in turns.
func TestALoserStandsBack(t *testing.T) {
	var waits []time.Duration
	tt := newTable()
	for range 5 {
		tt.Lost(tt.now, 2*time.Second)
		tt.owner.Epoch++
		from := tt.now
		refused := fencing.Answer{Refused: true}
		for tt.look(&refused).Act == fencing.Wait {
			if tt.now-from > 3*time.Minute {
				t.Fatal("it never tries again")
			}
		}
		waits = append(waits, (tt.now - from).Truncate(time.Second))
	}
	want := []time.Duration{3 * time.Second, 6 * time.Second, 12 * time.Second, 24 * time.Second, 45 * time.Second}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Error(diff)
	}
	tt.Kept()
	tt.Lost(tt.now, 2*time.Second)
	tt.owner.Epoch++
	refused := fencing.Answer{Refused: true}
	from := tt.now
	for tt.look(&refused).Act == fencing.Wait && tt.now-from < time.Minute {
	}
	if tt.now-from > 4*time.Second {
		t.Errorf("waited %s after it had the queue for long", tt.now-from)
	}
}

func TestAnOwnerIsReadAsItWasRecorded(t *testing.T) {
	got, err := fencing.ParseMember(owner.Owner())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(owner, got); diff != "" {
		t.Error(diff)
	}
	if _, err := fencing.ParseMember("pod/boot"); err == nil {
		t.Error("text was taken for a member")
	}
}
