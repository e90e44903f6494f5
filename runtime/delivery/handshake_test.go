package delivery

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

func TestHappyPath(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.worker("a", nil), w.worker("b", nil)
	a.serve(confirmAll)
	b.serve(confirmAll)
	p := w.producer(16)
	w.submit(p, "job-", 500)
	w.advance(3 * time.Second)
	st := w.ctl.Stats()
	w.equal("accepted", st.Accepted, 500)
	w.equal("confirmed", st.Confirmed, 500)
	w.equal("redelivered", st.Redelivered, 0)
	w.equal("settled", len(w.settled), 500)
	w.equal("held", w.holds(), 0)
	w.equal("stored", len(p.stored), 500)
	for _, ref := range w.settled {
		if state, ok, _ := w.queue.Lookup(t.Context(), ref.Ref.MessageID); !ok || state.Status != queue.StatusConfirmed || !state.Accepted {
			t.Fatalf("%s is %+v in the queue", ref.Ref.MessageID, state)
		}
	}
}

func TestB001_UnansweredGrantIsRepeated(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.BacklogJobs, c.BacklogBytes = 0, 0 })
	w.worker("a", nil)
	p := w.producer(1)
	w.advance(4 * time.Second)
	if len(p.grants) < 4 {
		t.Fatalf("%d grants in 4 s", len(p.grants))
	}
	for _, g := range p.grants {
		w.equal("grant", g, p.grants[0])
	}
	w.equal("up to", p.grants[0].UpTo, 1)
}

func TestB002_RepeatedProducedStoresOnce(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(4)
	p.mute = true
	p.submit(newJob("x"))
	again := protocol.Produced{Session: p.session, Token: 1, Job: newJob("x")}
	for range 3 {
		p.send(again, digestOf(again.Job))
		w.run()
	}
	w.equal("accepted", w.ctl.Stats().Accepted, 1)
	w.equal("stored answers", len(p.stored), 4) // the first and one for each repeat
	w.equal("cursor", w.ctl.Stats().Cursor, 1)
}

func TestB003_StoredIsRepeatedUntilAcknowledged(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(4)
	p.mute = true
	p.submit(newJob("x"))
	w.advance(1600 * time.Millisecond)
	w.equal("stored", len(p.stored), 4)
	for _, s := range p.stored {
		w.equal("stored", s, p.stored[0])
	}
	for range 2 {
		p.send(protocol.StoredAck{Session: p.session, Token: 1, MessageID: "x"}, queue.Digest{})
	}
	w.run()
	w.advance(2 * time.Second)
	w.equal("stored after the ack", len(p.stored), 4)
	accepts := 0
	for _, b := range w.batches {
		accepts += len(b.Accepts)
	}
	w.equal("accepts", accepts, 1)
}

func TestB004_LateDuplicatesChangeNothing(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(4)
	p.submit(newJob("x"))
	before := len(w.batches)
	p.send(protocol.Produced{Session: p.session, Token: 1, Job: newJob("x")}, digestOf(newJob("x")))
	p.send(protocol.StoredAck{Session: p.session, Token: 1, MessageID: "x"}, queue.Digest{})
	w.run()
	w.equal("batches", len(w.batches), before)
	w.equal("refused", len(p.refused), 0)
	p.submit(newJob("y"))
	w.equal("accepted", w.ctl.Stats().Accepted, 2)
}

func TestProducerMisuseIsRefusedAndTheFlowLives(t *testing.T) {
	long := strings.Repeat("m", protocol.MaxIDBytes+1)
	limit := bytes.Repeat([]byte("x"), 100)
	for _, tc := range []struct {
		name string
		m    func(p *testProducer) protocol.Produced
		code protocol.RefusalCode
	}{
		{"B-005 token of another job", func(p *testProducer) protocol.Produced {
			return protocol.Produced{Session: p.session, Token: 1, Job: newJob("other")}
		}, protocol.RefusedTokenReused},
		{"B-006 no credit", func(p *testProducer) protocol.Produced {
			return protocol.Produced{Session: p.session, Token: p.upTo + 1, Job: newJob("other")}
		}, protocol.RefusedNoCredit},
		{"B-006 token zero", func(p *testProducer) protocol.Produced {
			return protocol.Produced{Session: p.session, Token: 0, Job: newJob("other")}
		}, protocol.RefusedNoCredit},
		{"B-007 stale session", func(p *testProducer) protocol.Produced {
			return protocol.Produced{Session: "old", Token: 2, Job: newJob("other")}
		}, protocol.RefusedStaleSession},
		{"B-012 empty payload", func(p *testProducer) protocol.Produced {
			return protocol.Produced{Session: p.session, Token: 2, Job: protocol.Job{MessageID: "other"}}
		}, protocol.RefusedInvalid},
		{"B-012 blank id", func(p *testProducer) protocol.Produced {
			return protocol.Produced{Session: p.session, Token: 2, Job: protocol.Job{MessageID: "  ", Payload: limit}}
		}, protocol.RefusedInvalid},
		{"B-012 id of 257 bytes", func(p *testProducer) protocol.Produced {
			return protocol.Produced{Session: p.session, Token: 2, Job: protocol.Job{MessageID: long, Payload: limit}}
		}, protocol.RefusedInvalid},
		{"B-012 payload one byte over", func(p *testProducer) protocol.Produced {
			return protocol.Produced{Session: p.session, Token: 2, Job: protocol.Job{MessageID: "other", Payload: append(limit, 'x')}}
		}, protocol.RefusedInvalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, func(c *ControllerConfig) { c.MaxPayloadBytes = 100 })
			p := w.producer(4)
			p.submit(newJob("first"))
			m := tc.m(p)
			p.send(m, digestOf(m.Job))
			w.run()
			if len(p.refused) != 1 || p.refused[0].Code != tc.code || p.refused[0].Token != m.Token {
				t.Fatalf("refused %+v, want %s", p.refused, tc.code)
			}
			w.equal("counted", w.ctl.Stats().Dropped[string(tc.code)], 1)
			w.equal("accepted", w.ctl.Stats().Accepted, 1)
			p.submit(newJob("next"))
			w.equal("accepted after it", w.ctl.Stats().Accepted, 2)
		})
	}
}

func TestB007_StaleStoredAckIsDropped(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(1)
	p.mute = true
	p.submit(newJob("x"))
	p.send(protocol.StoredAck{Session: "old", Token: 1, MessageID: "x"}, queue.Digest{})
	p.send(protocol.StoredAck{Session: p.session, Token: 1, MessageID: "y"}, queue.Digest{})
	p.send(protocol.StoredAck{Session: p.session, Token: 9, MessageID: "x"}, queue.Digest{})
	w.run()
	w.equal("stale", w.ctl.Stats().Dropped[string(protocol.RefusedStaleSession)], 1)
	w.equal("unexpected", w.ctl.Stats().Dropped["unexpected-stored-ack"], 2)
	w.equal("batches", len(w.batches), 1)
}

func TestB009_NoWorkersNoGrantUnderTheStrictRule(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.BacklogJobs, c.BacklogBytes = 0, 0 })
	p := w.producer(100)
	w.advance(time.Hour)
	w.equal("grants", len(p.grants), 0)
	w.equal("batches", len(w.batches), 0)
}

func TestB010_GrantOnlyAboveTheBacklog(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.BacklogJobs, c.BacklogBytes = 0, 0 })
	a := w.worker("a", func(c *ConsumerConfig) { c.Window = 3 })
	p := w.producer(100)
	w.equal("granted", p.upTo, 3)
	p.submit(newJob("1"), newJob("2"), newJob("3"))
	w.equal("granted while the window is full", p.upTo, 3)
	w.equal("running", len(a.running), 1)
	a.finish("1", protocol.Confirmed)
	w.equal("granted after one slot", p.upTo, 4)
	// Jobs that came back stand against demand as well: a second worker's free slots go to them first.
	a.die()
	w.advance(11 * time.Second)
	w.equal("backlog", w.ctl.Stats().BacklogJobs, 2)
	w.worker("b", func(c *ConsumerConfig) { c.Window = 3 })
	w.equal("granted to the one slot that is left", int(p.upTo-p.used), 1)
}

func TestB011_DemandThatLeavesLosesNothing(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.BacklogJobs, c.BacklogBytes = 0, 0 })
	a := w.worker("a", nil)
	p := w.producer(1)
	w.equal("granted", p.upTo, 1)
	a.kill()
	p.submit(newJob("x"))
	w.equal("accepted", w.ctl.Stats().Accepted, 1)
	w.equal("backlog", w.ctl.Stats().BacklogJobs, 1)
	b := w.worker("b", nil)
	w.equal("runs", b.order, []string{"x"})
}

func TestB013_LimitsThemselvesAreAccepted(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.MaxPayloadBytes = 1 << 10 })
	id := strings.Repeat("m", protocol.MaxIDBytes)
	p := w.producer(4)
	p.submit(protocol.Job{MessageID: id, Payload: bytes.Repeat([]byte("x"), 1<<10)})
	w.equal("accepted", w.ctl.Stats().Accepted, 1)
	w.equal("refused", len(p.refused), 0)
}

func TestB014_FirstBytesWin(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(4)
	p.submit(newJob("x"))
	p.submit(protocol.Job{MessageID: "x", Payload: []byte("other bytes")})
	w.equal("verdict", p.stored[1].Verdict, protocol.BodyMismatch)
	a := w.worker("a", nil)
	w.equal("payload", string(a.starts[0].Job.Payload), "payload of x")
}

func TestB015_NewEndpointGetsItsOwnGrant(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.BacklogJobs, c.BacklogBytes = 1, 0 })
	p := w.producer(1)
	w.equal("granted", p.upTo, 1)
	q := w.producer(1)
	w.equal("granted beside an open grant", q.upTo, 0)
	w.step(ProducerDetached{p.conn})
	w.run()
	w.equal("granted once it is gone", q.upTo, 1)
	q.submit(newJob("x"))
	w.equal("accepted", w.ctl.Stats().Accepted, 1)
}

func TestCreditIsFairBetweenEndpoints(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.BacklogJobs, c.BacklogBytes = 0, 0 })
	p, q, r := w.producer(100), w.producer(100), w.producer(100)
	w.worker("a", func(c *ConsumerConfig) { c.Window = 30 })
	w.equal("shares", []uint64{p.upTo, q.upTo, r.upTo}, []uint64{10, 10, 10})
}

func TestBacklogBoundsCredit(t *testing.T) {
	t.Run("jobs", func(t *testing.T) {
		w := newWorld(t, func(c *ControllerConfig) { c.BacklogJobs, c.BacklogBytes = 5, 0 })
		p := w.producer(100)
		w.submit(p, "job-", 20)
		w.equal("accepted", w.ctl.Stats().Accepted, 5)
		w.worker("a", func(c *ConsumerConfig) { c.Window = 4 }).serve(confirmAll)
		w.advance(time.Second)
		w.equal("confirmed", w.ctl.Stats().Confirmed, 20)
	})
	t.Run("bytes", func(t *testing.T) {
		w := newWorld(t, func(c *ControllerConfig) { c.BacklogJobs, c.BacklogBytes = 0, 1000 })
		p := w.producer(10)
		for range 30 {
			id := w.rnd.ID()
			p.submit(protocol.Job{MessageID: id, Payload: bytes.Repeat([]byte("x"), 100)})
		}
		if got := w.ctl.Stats().BacklogBytes; got < 1000 || got > 2000 {
			t.Fatalf("backlog of %d bytes, the bound is 1000 and ten credits", got)
		}
	})
}

func TestSuspendClosesTheDoor(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(4)
	w.step(SetIntake{Open: false, Dispatch: true})
	p.submit(newJob("x"))
	w.equal("refused", p.refused[0].Code, protocol.RefusedSuspended)
	w.step(SetIntake{Open: true, Dispatch: false})
	p.used = 0 // the token is still open
	p.submit(newJob("x"))
	a := w.worker("a", nil)
	w.equal("accepted", w.ctl.Stats().Accepted, 1)
	w.equal("started while dispatch is off", len(a.starts), 0)
	w.step(SetIntake{Open: true, Dispatch: true})
	w.run()
	w.equal("started", len(a.starts), 1)
}

func TestB205_SequenceExhaustionIsRefusedInTime(t *testing.T) {
	w := newWorld(t, nil)
	w.loadErr = func() error { return errFlaky }
	w.boot(nil)
	p := w.producer(10)
	// The next load comes from a store whose cursor is two short of the end.
	op := w.ctl.lastOp
	w.loadErr = nil
	for w.ctl.lastOp == op {
		at, _ := w.ctl.NextDeadline()
		w.now = at
		for _, a := range w.ctl.Step(w.now, Tick{}) {
			if l, ok := a.(LoadQueue); ok {
				for _, a := range w.ctl.Step(w.now, Loaded{Op: l.Op, Epoch: 9, State: queue.State{Cursor: protocol.MaxSequence - 2}}) {
					w.do(a)
				}
			}
		}
	}
	w.run()
	w.equal("granted", p.upTo, 2)
	w.holdApply = true
	p.submit(newJob("1"), newJob("2"))
	p.produce(3, newJob("3"))
	w.run()
	w.equal("refused", p.refused[0].Code, protocol.RefusedSequenceSpent)
	w.equal("failed", len(w.failed), 0)
}

func TestAnAbandonedTokenDoesNotGrowMemory(t *testing.T) {
	w := newWorld(t, nil)
	w.worker("a", nil).serve(confirmAll)
	p := w.producer(4)
	p.used = 1 // token 1 is never used
	for i := range 20 {
		w.submit(p, "job-"+string(rune('a'+i)), 100)
	}
	if e := w.ctl.endpoints[p.conn]; e.tokens.len() > tokenSpan+4 || int(p.upTo) > tokenSpan+4 {
		t.Fatalf("%d tokens remembered, granted up to %d", e.tokens.len(), p.upTo)
	}
}
