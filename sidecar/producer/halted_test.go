package producer_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/queue"
)

// A failure for good of the member that has the queue ends the flow, not that member alone: the others do not load what no load heals, also
// when the pod of the failed one is gone, until a person has changed spec.recoverNonce (B-237).
func TestAHaltedFlowIsNotTakenOver(t *testing.T) {
	c := startCrew(t, 3)
	active := c.active()
	failed := c.members[active]
	c.stored(failed, "kept", "")
	epoch := c.epoch()

	c.database.fail(fmt.Errorf("%w: row 7 is torn", queue.ErrConflict))
	_, _ = failed.submit("never", "")
	failed.until("it tells the operator", func() bool {
		s := failed.operator.stats()
		return s.GetState() == "Failed" && s.GetFailureStage() == "Store" && s.GetFailureCode() == runtimeconfig.FailureConflict
	})
	c.database.fail(nil) // so that the others could load, if they would
	for i, p := range c.members {
		if status, _ := p.submit("refused", ""); status != 503 {
			t.Errorf("submitting at member %d of a failed flow: %d", i, status)
		}
	}

	// The operator tells everybody, and then the failed pod goes.
	halt := &runtimeconfig.Halt{Stage: "Store", Code: runtimeconfig.FailureConflict, Reason: "row 7 is torn"}
	for _, p := range c.members {
		p.configure(func(d *runtimeconfig.Producer) { d.Halted = halt })
	}
	for _, p := range c.members {
		p.heard()
	}
	if err := failed.stop(); err != nil {
		t.Fatal(err)
	}
	left := c.halted(active, epoch)

	for _, p := range left {
		p.configure(func(d *runtimeconfig.Producer) { d.Halted, d.RecoverNonce = nil, 1 })
	}
	left[0].until("one of them has the queue", func() bool {
		return c.epoch() > epoch && (left[0].operator.stats().GetState() == "Running") != (left[1].operator.stats().GetState() == "Running")
	})
	c.stored(left[0], "kept", "")
	c.stored(left[1], "after", "")
}

// A member may take the queue over before the operator has told it of the failure, as when the failed one's pod is deleted at once. The
// Lease, which it has to acquire, tells it; and says nothing any more once somebody delivers again.
func TestTheLeaseTellsOfAFailureForGood(t *testing.T) {
	c := startCrew(t, 3)
	active := c.active()
	failed := c.members[active]
	c.stored(failed, "kept", "")
	failed.until("the Lease names it", func() bool { return c.leases.holder() == c.holderOf(active) })
	epoch := c.epoch()

	c.database.fail(fmt.Errorf("%w: row 7 is torn", queue.ErrConflict))
	_, _ = failed.submit("never", "")
	failed.until("it has failed", func() bool { return failed.operator.stats().GetState() == "Failed" })
	c.database.fail(nil)
	if err := failed.stop(); err != nil {
		t.Fatal(err)
	}
	left := c.halted(active, epoch)

	for _, p := range left {
		p.configure(func(d *runtimeconfig.Producer) { d.RecoverNonce = 1 })
	}
	left[0].until("one of them has the queue, and the Lease says nothing of a failure", func() bool {
		record, err := c.leases.Read(t.Context())
		return err == nil && record.Halted == "" && c.epoch() > epoch
	})
	c.stored(left[0], "after", "")
}

// halted are the members but the failed one, once one of them says why nothing runs. None has loaded the queue.
func (c *crew) halted(failed int, epoch queue.Epoch) []*pod {
	c.t.Helper()
	left := slices.Delete(slices.Clone(c.members), failed, failed+1)
	left[0].until("one in its place says why nothing runs", func() bool {
		return slices.ContainsFunc(left, func(p *pod) bool {
			s := p.operator.stats()
			return s.GetState() == "Failed" && strings.HasSuffix(s.GetFailureReason(), "row 7 is torn")
		})
	})
	if got := c.epoch(); got != epoch {
		c.t.Errorf("a halted flow was loaded: epoch %d after %d", got, epoch)
	}
	return left
}

// A failure that a person has answered is over: a flow that works does not end by it at the next takeover because the nonce was changed back.
func TestAnAnsweredFailureDoesNotComeBack(t *testing.T) {
	c := startCrew(t, 2)
	failed := c.members[c.active()]
	c.database.fail(fmt.Errorf("%w: row 7 is torn", queue.ErrConflict))
	_, _ = failed.submit("never", "")
	failed.until("it has failed", func() bool { return failed.operator.stats().GetState() == "Failed" })
	c.database.fail(nil)
	for _, nonce := range []int64{1, 0} {
		for _, p := range c.members {
			p.configure(func(d *runtimeconfig.Producer) { d.RecoverNonce = nonce })
			p.heard()
		}
		c.active()
	}
	active := c.active()
	if err := c.members[active].stop(); err != nil {
		t.Fatal(err)
	}
	c.active(active)
	if _, err := os.Stat(failed.options.HaltFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the next process of the pod would end by it: %v", err)
	}
}

// heard waits until the operator is told that the newest document is in force.
func (p *pod) heard() {
	p.t.Helper()
	_, hash, err := runtimeconfig.Marshal(p.document)
	if err != nil {
		p.t.Fatal(err)
	}
	p.until("the document is in force", func() bool { return p.operator.stats().GetConfigHash() == hash })
}

// epoch is the newest that was loaded.
func (c *crew) epoch() queue.Epoch {
	owner, _ := c.database.Owner(c.t.Context()) // the epoch is right also while the database answers with a failure
	return owner.Epoch
}
