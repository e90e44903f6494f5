package delivery

import (
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// lostClaim is what an earlier process left behind of a job.
func lostClaim(id string, storeSeq int64) protocol.Claim {
	return protocol.Claim{MessageID: id, StoreSeq: storeSeq, Attempt: 1, Ticket: protocol.Ticket{1, 2, 3}, State: protocol.ClaimLost}
}

// B-087, I-9: a sidecar that starts under a living app counts what the process before it left running as taken.
func TestAnOrphanHoldsItsSlotAndItsID(t *testing.T) {
	r := newGroupRig(t, func(c *ConsumerConfig) { c.Concurrency = 2 }, "a", "b")
	r.step(HoldClaims{Flow: "a", Claims: []protocol.Claim{lostClaim("left", 1)}})
	r.up("a", "b")
	claims := r.flows["a"].said[0].(protocol.RegisterConsumer).Claims
	r.equal("claims at the first registration", claims, []protocol.Claim{lostClaim("left", 1)})

	r.deliver("a", "left", "a1", "a2")
	r.deliver("b", "left")
	r.advance(10 * time.Millisecond)
	r.equal("starts", r.order, []string{"a/a1"})
	r.equal("what a hears", r.outcomes("a"), []string{"left delayed"})
	st := r.group.Status(r.now)
	r.equal("slots of an earlier process", st.Orphaned, 1)
	r.equal("running", st.Running, 1)

	r.step(OrphansGone{})
	r.equal("freed", r.orphansEnded, []string{"left"})
	r.equal("starts", r.order, []string{"a/a1", "a/a2"})
	r.finish("a1", "a2")
	r.deliver("b", "left")
	r.equal("starts", r.order, []string{"a/a1", "a/a2", "b/left"})
}

// The handler timeout frees an orphan, for nobody will hear how it ends; 0 waits for the app's restart (B-088).
func TestAnOrphanEndsWithItsTimeoutOrItsApp(t *testing.T) {
	for name, tc := range map[string]struct {
		timeout time.Duration
		free    bool
	}{"a minute": {time.Minute, true}, "none": {0, false}} {
		t.Run(name, func(t *testing.T) {
			r := newGroupRig(t, func(c *ConsumerConfig) { c.HandlerTimeout = tc.timeout }, "a")
			r.step(HoldClaims{Flow: "a", Claims: []protocol.Claim{lostClaim("left", 1)}})
			r.up("a")
			r.beat(59*time.Second, "a")
			r.deliver("a", "left")
			r.equal("starts before the timeout", len(r.order), 0)
			r.beat(2*time.Hour, "a")
			r.deliver("a", "left")
			r.equal("started after the timeout", len(r.order) == 1, tc.free)
			if !tc.free {
				r.step(AppRestarted{})
				r.deliver("a", "left")
				r.equal("started after the app's restart", len(r.order), 1)
			}
			r.equal("freed", r.orphansEnded, []string{"left"})
		})
	}
}

// What an earlier process left behind is no job of this worker: it drains and is idle without it.
func TestAnOrphanHoldsUpNoDrain(t *testing.T) {
	r := newGroupRig(t, nil, "a")
	r.step(HoldClaims{Flow: "a", Claims: []protocol.Claim{lostClaim("left", 1)}})
	r.up("a")
	st := r.group.Status(r.now)
	r.equal("idle", []any{st.Idle, st.Unsettled}, []any{true, 0})
	r.step(Cordon{})
	r.equal("cordoned", r.group.Status(r.now).Cordoned, true)
	r.step(Cordon{Force: true})
	r.equal("drained", r.drained, 1)
	r.equal("still holds its slot", r.group.Status(r.now).Orphaned, 1)
}

// A claim is repeated until a controller has ended it, whatever becomes of the orphan; one without a ticket is never made.
func TestAnOrphanIsClaimedUntilThatIsEnded(t *testing.T) {
	r := newGroupRig(t, func(c *ConsumerConfig) { c.Concurrency = 3 }, "a", "b")
	unproven := protocol.Claim{MessageID: "unproven", StoreSeq: 2, Attempt: 1, State: protocol.ClaimLost}
	r.step(HoldClaims{Flow: "a", Claims: []protocol.Claim{lostClaim("left", 1), unproven}})
	r.step(HoldClaims{Flow: "gone", Claims: []protocol.Claim{lostClaim("x", 1)}})
	r.up("a", "b")
	claimed := func() (ids []string) {
		for _, m := range r.flows["a"].said {
			if m, ok := m.(protocol.RegisterConsumer); ok {
				ids = nil
				for _, claim := range m.Claims {
					ids = append(ids, claim.MessageID)
				}
			}
		}
		return ids
	}
	r.step(OrphansGone{})
	r.connect("a")
	r.equal("claims after a reconnect", claimed(), []string{"left"})
	r.bind("a", "a-binding-2", 1)
	r.hear("a", protocol.ClaimsEnded{BindingID: "a-binding-2", Ended: []protocol.ClaimRef{{MessageID: "left", StoreSeq: 1}}})
	r.connect("a")
	r.equal("claims after the end", claimed(), []string(nil))
	r.equal("what belongs to no flow", r.group.Status(r.now).Dropped["unknown-flow"], uint64(1))
}

// The whole way: the lost attempt counts, and the job goes to another worker, or waits, but never joins its orphan.
func TestALostRunGoesElsewhere(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil)
	p := w.producer(1)
	w.submit(p, "j", 1)
	left := a.starts[0]
	w.advance(100 * time.Millisecond)
	a.die() // the sidecar alone: the app still runs j1

	a2 := w.incarnation("a", "a-boot-2", func(c *ConsumerConfig) { c.Concurrency = 2 }, HoldClaims{Claims: []protocol.Claim{{
		MessageID: left.Job.MessageID, StoreSeq: left.StoreSeq, Attempt: left.Attempt, Ticket: left.Ticket, State: protocol.ClaimLost,
	}}})
	w.advance(20 * time.Second)
	w.equal("starts under the orphan", len(a2.starts), 0)
	w.submit(p, "k", 1)
	w.equal("the free slot works", a2.order, []string{"k1"})

	b := w.worker("b", nil)
	w.advance(time.Minute)
	w.equal("the other worker runs it", b.order, []string{"j1"})
	w.equal("its attempt", b.starts[0].Attempt, 2)
	b.finish("j1", protocol.Confirmed)
	a2.finish("k1", protocol.Confirmed)
	w.advance(time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 2)
}
