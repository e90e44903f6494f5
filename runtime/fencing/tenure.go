package fencing

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// TenureStep is what a worker's process does next about the Lease of its pod.
type TenureStep string

// Steps of a Tenure. What comes of TenureRead is told to Read, what comes of TenureCreate and TenureHold to Wrote.
const (
	TenureRest   TenureStep = "rest"   // nothing is due yet
	TenureRead   TenureStep = "read"   // read the Lease
	TenureCreate TenureStep = "create" // make the Lease
	TenureHold   TenureStep = "hold"   // acquire or renew the Lease, if nobody has written it since Seen
	TenureEnd    TenureStep = "end"    // this incarnation is over; Over says why
)

// tenureRetry is the first pause after the API server did not answer; it doubles up to the interval of renewals.
const tenureRetry = time.Second

// Tenure decides what one incarnation of a worker does about the Lease of its pod. It is pure: its host does the steps that Next names and
// tells what came of them.
//
//   - Each incarnation acquires the Lease once, against whoever held it when it first looked: that one was there before.
//   - Whoever acquired it after that is newer, and ends this incarnation. So does the deletion of the Lease.
//   - No answer of the API server changes anything: what is held stays held, and is asked for again after a pause that grows.
//   - A Lease that says less than this incarnation wrote into it, as after the restoration of a backup, is acquired anew.
//   - Renewals are spread over the interval, so that workers that began together do not write together.
type Tenure struct {
	self     protocol.Incarnation
	interval time.Duration
	random   func() float64

	looked   bool  // the Lease was read, or found missing
	base     int32 // its transitions at that look, or as this incarnation acquired it
	held     bool  // this incarnation has acquired it
	missing  bool
	record   LeaseRecord // what it says; without a version that is not known
	failures int
	due      Now
	over     string
}

// NewTenure returns a Tenure of an incarnation that has not looked yet. random returns a number in [0, 1).
func NewTenure(self protocol.Incarnation, interval time.Duration, random func() float64) *Tenure {
	return &Tenure{self: self, interval: interval, random: random}
}

// Reconfigure changes how often the Lease is renewed. A shorter interval counts at once.
func (t *Tenure) Reconfigure(now Now, interval time.Duration) {
	if interval < t.interval && t.held {
		t.due = min(t.due, now+t.spread(interval))
	}
	t.interval = interval
}

// Poke makes the Lease be looked at now: something says that it may be held by another.
func (t *Tenure) Poke(now Now) {
	if t.failures == 0 {
		t.record, t.due = LeaseRecord{}, now
	}
}

// Next returns what to do now, or for how long to rest.
func (t *Tenure) Next(now Now) (TenureStep, time.Duration) {
	switch {
	case t.over != "":
		return TenureEnd, 0
	case now < t.due:
		return TenureRest, t.due - now
	case t.missing:
		return TenureCreate, 0
	case t.record.Version == "":
		return TenureRead, 0
	}
	return TenureHold, 0
}

// Seen is what the Lease said last, for TenureHold.
func (t *Tenure) Seen() LeaseRecord { return t.record }

// Held says whether this incarnation has acquired the Lease, as far as it knows.
func (t *Tenure) Held() bool { return t.held && t.over == "" }

// Failing says whether the API server did not answer when it was asked last.
func (t *Tenure) Failing() bool { return t.failures > 0 }

// Transitions counts the incarnations that have held the Lease, this one included.
func (t *Tenure) Transitions() int32 { return t.base }

// Over says why this incarnation is over; empty while it is not.
func (t *Tenure) Over() string { return t.over }

// Read tells what came of reading the Lease.
func (t *Tenure) Read(now Now, record LeaseRecord, err error) {
	switch {
	case apierrors.IsNotFound(err):
		t.lost(now)
		return
	case err != nil:
		t.failed(now)
		return
	}
	first := !t.looked
	t.looked, t.missing, t.failures, t.record, t.due = true, false, 0, record, now
	switch boot, ours := bootOf(record.Holder, t.self.PodUID); {
	case ours && boot == t.self.BootNonce: // the answer to a write was lost
		t.hold(now, record)
	case first:
		t.base = record.Transitions
	case ours && record.Transitions > t.base:
		t.over = "another process of this pod has taken its Lease: " + boot
	}
}

// Wrote tells what came of making, acquiring or renewing the Lease.
func (t *Tenure) Wrote(now Now, record LeaseRecord, err error) {
	switch {
	case err == nil:
		t.failures, t.missing = 0, false
		t.hold(now, record)
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err): // somebody else has written: look who
		t.missing, t.record, t.due = false, LeaseRecord{}, now
	case apierrors.IsNotFound(err):
		t.lost(now)
	default: // it may have been written all the same
		t.missing, t.record = false, LeaseRecord{}
		t.failed(now)
	}
}

// hold notes that the Lease names this incarnation. The first renewal comes at any moment of an interval.
func (t *Tenure) hold(now Now, record LeaseRecord) {
	wait := t.interval*9/10 + t.spread(t.interval/5)
	if !t.held {
		wait = t.spread(t.interval)
	}
	t.held, t.base, t.record, t.due = true, record.Transitions, record, now+wait
}

// lost notes that there is no Lease.
func (t *Tenure) lost(now Now) {
	if t.held {
		t.over = "the Lease of this pod was deleted"
		return
	}
	t.looked, t.missing, t.record, t.failures, t.due = true, true, LeaseRecord{}, 0, now
}

func (t *Tenure) failed(now Now) {
	pause := t.interval
	if t.failures < 16 {
		pause = min(pause, tenureRetry<<t.failures)
	}
	t.failures++
	t.due = now + pause*3/4 + t.spread(pause/2)
}

func (t *Tenure) spread(over time.Duration) time.Duration {
	return time.Duration(t.random() * float64(over))
}
