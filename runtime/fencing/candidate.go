package fencing

import (
	"fmt"
	"time"

	"github.com/workpulling/workpulling/runtime/queue"
)

// Now is a monotonic time since an arbitrary start; nothing here compares two machines' clocks.
type Now = time.Duration

// CandidateConfig are the times of a Candidate.
type CandidateConfig struct {
	// Self is this process; its Turn does not matter.
	Self Member
	// Silence is how long an owner that gives no sign of life is believed in.
	Silence time.Duration
	// Beat is how often its host looks for signs of life.
	Beat time.Duration
	// Patience is how long its host waits at most for one answer, of the queue, the owner or the API server.
	Patience time.Duration
	// Random returns a number in [0, 1).
	Random func() float64
}

// Candidate decides when a member that stands by tries to Load. It is pure: its host tells it what it finds, and asks Decide.
//
// What it goes by, strongest first:
//   - Who loaded last, by the queue itself. Without an answer of the queue it never tries, so a member that is cut off from the queue
//     takes it from nobody.
//   - Evidence that this owner is over: its pod was deleted, its address refuses connections twice in a row, another process or another
//     turn answers there, or it says itself that the queue does not work for it while it works for us.
//   - Silence: neither an answer at its address nor a renewal of the Lease for as long as Silence.
//   - The Lease, which is advisory: it says who of several members goes first. Losing it ends nobody (B-253), and while the API server
//     does not answer, a random wait replaces it (B-252).
//
// A wrong guess costs a takeover that was not needed and no job: Load's epoch fences whoever owned the queue before.
type Candidate struct {
	config CandidateConfig

	readable      bool
	readableSince Now
	trouble       string // why the queue is not readable
	owner         Member
	epoch         queue.Epoch

	aliveAt  Now
	refused  int
	over     string // evidence that the owner is over
	answered bool   // the owner answered when it was last asked

	leaseKnown bool
	lease      LeaseRecord
	renewedAt  Now // when the Lease was last seen to change
	leaseSeen  bool

	last      Now
	notBefore Now
	fences    int
	drawn     bool // the random wait that stands in for the Lease is drawn
	goAt      Now
}

// NewCandidate returns a Candidate that has seen nothing yet.
func NewCandidate(config CandidateConfig) *Candidate { return &Candidate{config: config} }

// Reconfigure replaces the times.
func (c *Candidate) Reconfigure(silence, beat time.Duration) {
	c.config.Silence, c.config.Beat = silence, beat
}

// OwnerRead tells what the queue says of its owner.
func (c *Candidate) OwnerRead(now Now, owner queue.Owner, err error) {
	c.wake(now)
	if err != nil {
		c.readable, c.trouble = false, err.Error()
		return
	}
	if !c.readable {
		c.readable, c.readableSince = true, now
	}
	c.trouble = ""
	member, parseErr := ParseMember(owner.Address)
	if owner.Epoch == c.epoch && member == c.owner {
		return
	}
	c.owner, c.epoch = member, owner.Epoch
	c.aliveAt, c.refused, c.over, c.answered, c.drawn = now, 0, "", false, false
	switch {
	case owner.Epoch == 0 || parseErr != nil:
	case member.sameProcess(c.config.Self):
		c.over = "it was this process, and gave up"
	case member.PodUID == c.config.Self.PodUID:
		c.over = "it was the process before this one in the same pod"
	}
}

// Answer is what came of asking the owner at its address.
type Answer struct {
	// Refused: nobody listens at the address.
	Refused bool
	// Heard: somebody of this flow answered, and said the rest.
	Heard     bool
	PodUID    string
	BootNonce string
	// Turn is 0 for a process that stands by.
	Turn int64
	// Troubled is how long the queue has not worked for it.
	Troubled time.Duration
}

// Asked tells what came of asking member.
func (c *Candidate) Asked(now Now, member Member, a Answer) {
	c.wake(now)
	if member != c.owner {
		return // it was the owner when it was asked
	}
	c.answered = false
	switch {
	case a.Refused:
		c.refused++
		if c.refused >= 2 && c.over == "" {
			c.over = "nothing listens at its address"
		}
	case !a.Heard:
	case a.PodUID != member.PodUID || a.BootNonce != member.BootNonce:
		c.over = "another process answers at its address"
	case a.Turn != member.Turn:
		c.over = "it gave up"
	case a.Troubled >= c.config.Silence && now-c.readableSince >= c.config.Silence: // an outage that both saw has just ended otherwise
		c.over = "the queue does not work for it, and works for this member"
	default:
		c.aliveAt, c.refused, c.over, c.answered = now, 0, "", true
	}
}

// LeaseRead tells what the Lease says; an error is no answer of the API server.
func (c *Candidate) LeaseRead(now Now, record LeaseRecord, err error) {
	c.wake(now)
	c.leaseKnown = err == nil
	if err != nil {
		return
	}
	if c.leaseSeen && record == c.lease {
		return
	}
	renewed := c.leaseSeen && record.Holder == c.lease.Holder
	c.lease, c.leaseSeen, c.renewedAt = record, true, now
	if renewed && record.Holder != "" && record.Holder == c.owner.Holder() {
		c.aliveAt = now
	}
}

// PodGone tells that a pod's object was deleted: its process is over, or will be.
func (c *Candidate) PodGone(uid string) {
	if c.epoch > 0 && c.owner.PodUID == uid {
		c.over = "its pod was deleted"
	}
}

// Lost tells that this member had the queue and lost it, or did not get it. It stands back, for longer each time, so that two members
// that cannot see each other do not fence each other in turns. took is how long its last Load took.
func (c *Candidate) Lost(now Now, took time.Duration) {
	c.fences = min(c.fences+1, 6)
	base := max(took, c.config.Beat) << (c.fences - 1)
	c.notBefore = now + min(base, maxStandBack) + time.Duration(c.config.Random()*float64(min(base, maxStandBack)))
	c.drawn = false
}

// maxStandBack bounds what Lost adds to a wait, twice.
const maxStandBack = 30 * time.Second

// Kept tells that this member has had the queue for a while: what it lost before is forgotten.
func (c *Candidate) Kept() { c.fences = 0 }

// Act is what a host should do.
type Act int

const (
	// Wait: stand by, and ask again after the next look.
	Wait Act = iota
	// Acquire: try to get the Lease, and Load if that succeeds.
	Acquire
	// Load at once.
	Load
)

// Decision is an Act and why, for a log.
type Decision struct {
	Act Act
	Why string
}

// Decide says what to do now.
func (c *Candidate) Decide(now Now) Decision {
	c.wake(now)
	why, free := c.free(now)
	if !free {
		c.drawn = false
		return Decision{Wait, why}
	}
	if now < c.notBefore {
		return Decision{Wait, "standing back for a while, because this member lost the queue before; " + why}
	}
	if c.leaseKnown {
		return c.byLease(now, why)
	}
	if !c.drawn {
		c.drawn = true
		c.goAt = now + time.Duration(c.config.Random()*float64(2*c.config.Beat))
	}
	if now < c.goAt {
		return Decision{Wait, "the API server does not answer, so chance decides who goes first; " + why}
	}
	return Decision{Load, why + "; the API server does not answer"}
}

// free says whether nobody has the queue, as far as can be known, and why.
func (c *Candidate) free(now Now) (string, bool) {
	silent := now - c.aliveAt
	switch {
	case !c.readable && c.trouble == "":
		return "the queue has not been asked yet", false
	case !c.readable:
		return "the queue cannot be read: " + c.trouble, false
	case c.epoch == 0:
		return "nobody has loaded the queue yet", true
	case c.over != "":
		return fmt.Sprintf("member %s owned the queue: %s", c.owner.Pod, c.over), true
	case silent >= c.config.Silence:
		return fmt.Sprintf("member %s owned the queue and has given no sign of life for %s", c.owner.Pod, silent.Round(time.Second)), true
	}
	return fmt.Sprintf("member %s owns the queue", c.owner.Pod), false
}

func (c *Candidate) byLease(now Now, why string) Decision {
	switch holder := c.lease.Holder; {
	case holder == c.config.Self.Holder():
		return Decision{Load, why}
	case holder == "" || holder == c.owner.Holder() || now-c.renewedAt >= c.config.Silence:
		return Decision{Acquire, why}
	default:
		return Decision{Wait, fmt.Sprintf("%s holds the Lease and takes over; %s", holder, why)}
	}
}

// wake notices that this process was itself paused: what it has not heard meanwhile says nothing about others. To have waited
// for an answer in vain is no pause: where the API server lies in a black hole, each look takes that long.
func (c *Candidate) wake(now Now) {
	if gap := now - c.last; gap > 4*c.config.Beat+c.config.Patience && c.last > 0 {
		c.aliveAt, c.renewedAt, c.refused = now, now, 0
	}
	c.last = now
}

// Owner is who owns the queue as far as is known, and whether it answered when it was last asked; ok is false where nobody is known to.
func (c *Candidate) Owner() (member Member, epoch queue.Epoch, alive, ok bool) {
	return c.owner, c.epoch, c.answered, c.epoch > 0 && c.owner.PodUID != ""
}

// Soon says that the next look should not wait for the beat, because one refusal is no evidence yet.
func (c *Candidate) Soon() bool { return c.refused == 1 && c.over == "" }

// WantsLease says that the Lease matters now: nobody has the queue, or its owner did not answer and may be alive all the same.
func (c *Candidate) WantsLease(now Now) bool {
	_, free := c.free(now)
	return free || !c.answered
}

// MayHold says whether an owner may acquire or renew the Lease: nobody else holds it who is there.
func (c *Candidate) MayHold(now Now) bool {
	holder := c.lease.Holder
	return c.leaseKnown && (holder == "" || holder == c.config.Self.Holder() || now-c.renewedAt >= c.config.Silence)
}

// Lease is what the Lease said last; ok is false while the API server does not answer.
func (c *Candidate) Lease() (LeaseRecord, bool) { return c.lease, c.leaseKnown }

// Readable says whether the queue answered when it was last asked, and if not, why.
func (c *Candidate) Readable() (bool, string) { return c.readable, c.trouble }
