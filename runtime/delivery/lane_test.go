package delivery

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

func TestB230_HandshakeFirstAndConfirmsDoNotStarve(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.MaxBatch = 8 })
	a := w.worker("a", func(c *ConsumerConfig) { c.Concurrency = 50 })
	w.submit(w.producer(100), "", 40)
	w.holdApply = true
	a.serve(confirmAll)
	w.advance(10 * time.Millisecond)
	w.submit(w.producer(1000), "more", 200) // a constant load of handshakes
	before := len(w.batches)
	w.release()
	w.advance(time.Second)
	for i, b := range w.batches[before : before+4] {
		if len(b.Stores)+len(b.Accepts) == 0 || len(b.Confirms) == 0 {
			t.Fatalf("batch %d: %d stores, %d accepts, %d confirms", i, len(b.Stores), len(b.Accepts), len(b.Confirms))
		}
		if n := len(b.Stores) + len(b.Accepts) + len(b.Confirms); n > 8 {
			t.Fatalf("batch of %d", n)
		}
	}
	w.equal("confirmed", w.ctl.Stats().Confirmed, 240)
}

func TestB230_BatchOfOne(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.MaxBatch = 1 })
	w.worker("a", nil).serve(confirmAll)
	w.submit(w.producer(20), "", 60)
	w.advance(time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 60)
	for i, b := range w.batches {
		if i == 0 {
			w.equal("the worker that joined", len(b.Workers), 1)
			continue
		}
		w.equal("operations", len(b.Stores)+len(b.Accepts)+len(b.Confirms), 1)
	}
}

func TestOneBatchInFlightAndTheNextGathers(t *testing.T) {
	w := newWorld(t, nil)
	w.holdApply = true
	w.submit(w.producer(100), "", 100)
	w.equal("in flight", len(w.held), 1)
	w.release()
	w.equal("batches", len(w.batches) <= 4, true)
	w.equal("accepted", w.ctl.Stats().Accepted, 100)
}

// failing makes the next n batches that match fail.
func failing(n int, match func(queue.Batch) bool) func(queue.Batch) error {
	return func(b queue.Batch) error {
		if n > 0 && match(b) {
			n--
			return errFlaky
		}
		return nil
	}
}

func hasStores(b queue.Batch) bool   { return len(b.Stores) > 0 }
func hasAccepts(b queue.Batch) bool  { return len(b.Accepts) > 0 }
func hasConfirms(b queue.Batch) bool { return len(b.Confirms) > 0 }

func TestB231_TransientErrorIsInvisible(t *testing.T) {
	w := newWorld(t, nil)
	session := w.ctl.Stats().Session
	w.applyErr = failing(2, hasStores)
	p := w.producer(1)
	p.submit(newJob("x"))
	w.advance(time.Second)
	w.equal("accepted", w.ctl.Stats().Accepted, 1)
	w.equal("session", w.ctl.Stats().Session, session)
	w.equal("loads", w.loads, 1)
	w.equal("error", w.ctl.Stats().QueueError, "")
}

// An owner waits for longer and longer while its queue is away. It may wait for half a minute when the queue is back, and a standby
// would take it for one that is cut off; so it is told.
func TestAnOutageIsOverWhenTheQueueAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		down   func(w *world)
		healed func(w *world) bool
	}{
		"a settlement": {
			down: func(w *world) {
				w.applyErr = func(queue.Batch) error { return errFlaky }
				w.workers[0].serve(confirmAll)
			},
			healed: func(w *world) bool { return w.ctl.Stats().Confirmed == 1 },
		},
		"a load": {
			down: func(w *world) {
				w.loadErr = func() error { return errFlaky }
				w.restart()
			},
			healed: func(w *world) bool { return w.ctl.Stats().Phase == PhaseRunning },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *ControllerConfig) { c.IsolateConfirmAfter = time.Hour })
			w.submit(w.producer(1), "", 1)
			w.worker("a", nil)
			c.down(w)
			w.advance(2 * time.Minute)
			w.applyErr, w.loadErr = nil, nil
			w.equal("healed by itself", c.healed(w), false)
			w.step(QueueAnswers{})
			w.advance(0)
			w.equal("healed", c.healed(w), true)
		})
	}
}

func TestB232_B025a_ExhaustedHandshakeReloads(t *testing.T) {
	for name, match := range map[string]func(queue.Batch) bool{"Store": hasStores, "Accept": hasAccepts} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			a := w.worker("a", nil)
			p := w.producer(10)
			w.submit(p, "early", 2)
			session, epoch, ref := w.ctl.Stats().Session, w.ctl.Stats().Epoch, a.ref()
			w.applyErr = failing(3, match)
			p.submit(newJob("x"))
			w.advance(5 * time.Second)
			st := w.ctl.Stats()
			if st.Session == session || st.Epoch <= epoch || a.ref() == ref {
				t.Fatalf("no reload: %+v", st)
			}
			w.equal("loads", w.loads, 2)
			w.equal("failed", len(w.failed), 0)
			w.equal("bound again", len(st.Bindings), 1)
			a.serve(confirmAll)
			w.advance(5 * time.Second)
			w.equal("order", a.order, []string{"early1", "early2", "x"})
			w.equal("held", w.holds(), 0)
			w.equal("streams", []int{len(w.conns), len(w.prods)}, []int{1, 1})
		})
	}
}

func TestB233_ConfirmThatCannotBeWrittenReloadsNothing(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.worker("a", nil), w.worker("b", nil)
	p := w.producer(10)
	w.submit(p, "", 4)
	session := w.ctl.Stats().Session
	bad := func(b queue.Batch) bool {
		return slices.ContainsFunc(b.Confirms, func(r queue.JobRef) bool { return r.MessageID == "1" })
	}
	w.applyErr = failing(1_000_000, bad)
	a.finish("1", protocol.Confirmed)
	w.advance(3 * time.Second)
	st := w.ctl.Stats()
	w.equal("session", st.Session, session)
	w.equal("credit withheld", st.CreditWithheld, true)
	w.equal("in flight", st.InFlight, 3)
	w.equal("redelivered", st.Redelivered, 0)
	granted := p.upTo
	a.serve(confirmAll)
	b.serve(confirmAll)
	w.advance(5 * time.Second)
	w.equal("no new credit", p.upTo, granted)

	w.advance(2 * time.Minute)
	st = w.ctl.Stats()
	w.equal("isolated", st.IsolatedConfirms, 1)
	w.equal("credit", st.CreditWithheld, false)
	w.equal("the others", st.Confirmed, 3)
	w.equal("error", st.QueueError, errFlaky.Error())
	w.submit(p, "later", 5)
	w.advance(time.Second)
	w.equal("works on", w.ctl.Stats().Confirmed, 8)
	w.equal("the worker is free", a.cons.Status(w.now).Unsettled, 0)
	w.equal("runs", len(a.starts)+len(b.starts), 9)

	w.applyErr = nil
	w.advance(time.Minute)
	st = w.ctl.Stats()
	w.equal("written in the end", []any{st.Confirmed, st.IsolatedConfirms, st.DirtyConfirms, st.QueueError}, []any{9, 0, 0, ""})
	w.equal("failed", len(w.failed), 0)
}

func TestB233_FlakyConfirmInAMixedBatchDoesNotCountAgainstStores(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.QueueAttempts = 1 })
	a := w.worker("a", func(c *ConsumerConfig) { c.Concurrency = 5 })
	p := w.producer(50)
	w.submit(p, "", 5)
	session := w.ctl.Stats().Session
	w.holdApply = true
	p.submit(newJob("first"))
	a.serve(confirmAll)
	w.advance(10 * time.Millisecond)
	p.submit(newJob("second"))
	w.applyErr = failing(3, hasConfirms)
	w.release()
	w.advance(10 * time.Second)
	w.equal("session", w.ctl.Stats().Session, session)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 7)
}

func TestB234_FencedAndConflictAreTerminalOnce(t *testing.T) {
	for _, err := range []error{queue.ErrFenced, queue.ErrConflict} {
		for stage, match := range map[Stage]func(queue.Batch) bool{StageStore: hasStores, StageAccept: hasAccepts, StageConfirm: hasConfirms} {
			t.Run(fmt.Sprint(stage, " ", err), func(t *testing.T) {
				w := newWorld(t, nil)
				a := w.worker("a", nil)
				w.applyErr = func(b queue.Batch) error {
					if match(b) {
						return fmt.Errorf("wrapped: %w", err)
					}
					return nil
				}
				w.submit(w.producer(1), "", 1)
				if stage == StageConfirm {
					a.finish("1", protocol.Confirmed)
				}
				if len(w.failed) != 1 || w.failed[0].Stage != stage || !errors.Is(w.failed[0].Cause, err) {
					t.Fatalf("failed %+v", w.failed)
				}
				w.equal("phase", w.ctl.Stats().Phase, PhaseFailed)
				w.step(Tick{})
				w.step(WorkerConnected{Conn: 99})
				w.equal("inert", len(w.ctl.Step(w.now+time.Hour, Tick{})), 0)
				w.equal("once", len(w.failed), 1)
			})
		}
	}
}

func TestB235_LoadIsRetriedForEver(t *testing.T) {
	w := newWorld(t, nil)
	w.loadErr = func() error { return errFlaky }
	w.boot(nil)
	w.loads = 0
	w.advance(59 * time.Second)
	w.equal("before a minute", w.ctl.Stats().LoadFailing, false)
	w.advance(2 * time.Second)
	st := w.ctl.Stats()
	w.equal("after a minute", []any{st.LoadFailing, st.Phase, st.QueueError}, []any{true, PhaseLoading, errFlaky.Error()})
	w.advance(time.Hour)
	if w.loads < 100 || w.loads > 300 {
		t.Fatalf("%d loads in an hour", w.loads)
	}
	w.loadErr = nil
	w.advance(time.Minute)
	st = w.ctl.Stats()
	w.equal("recovered", []any{st.LoadFailing, st.Phase, st.QueueError, len(w.failed)}, []any{false, PhaseRunning, "", 0})
}

func TestLoadErrorsThatNoRetryHeals(t *testing.T) {
	for _, err := range []error{queue.ErrFenced, queue.ErrConflict, queue.ErrUnsupportedFormat} {
		w := newWorld(t, nil)
		w.loadErr = func() error { return err }
		w.boot(nil)
		w.equal("failed", w.failed, []Failed{{StageLoad, err}})
	}
}

func TestB054_CorruptRowsAreAConflict(t *testing.T) {
	row := func(id string, seq int64) queue.Row {
		return queue.Row{JobRef: queue.JobRef{MessageID: id, StoreSeq: seq}}
	}
	for name, rows := range map[string][]queue.Row{
		"sequence zero":    {row("a", 0)},
		"above the cursor": {row("a", 11)},
		"unsorted":         {row("a", 5), row("b", 4)},
		"twice":            {row("a", 5), row("b", 5)},
		"no id":            {row("", 5)},
	} {
		c := NewController(DefaultControllerConfig(), &testRandom{})
		op := c.Step(0, Start{})[0].(LoadQueue).Op
		out := c.Step(0, Loaded{Op: op, Epoch: 1, State: queue.State{Cursor: 10}, Rows: rows})
		if f, ok := out[len(out)-1].(Failed); !ok || f.Stage != StageLoad || !errors.Is(f.Cause, queue.ErrConflict) {
			t.Fatalf("%s: %+v", name, out)
		}
	}
}

func TestForeignResultsAreDropped(t *testing.T) {
	w, _, _ := withJobs(t, 1, nil)
	w.step(Applied{Op: 999})
	w.step(Applied{})
	w.step(Loaded{Op: 999, Epoch: 77})
	w.step(JobsRead{Op: 999})
	w.equal("dropped", w.ctl.Stats().Dropped["foreign-operation"], 4)
	w.equal("epoch", w.ctl.Stats().Epoch, 1)
}

func TestB238_ReloadWhileWorkersAreMidJob(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", func(c *ConsumerConfig) { c.Concurrency = 2 })
	p := w.producer(10)
	w.submit(p, "", 4)
	w.equal("running", len(a.running), 2)
	w.applyErr = failing(3, hasStores)
	p.submit(newJob("x"))
	// One handler ends while there is no binding at all, the other after the worker is bound again.
	w.toWorker = func(*testWorker, protocol.ToWorker) bool { return true }
	w.advance(150 * time.Millisecond)
	w.loadErr = func() error { return errFlaky }
	w.advance(100 * time.Millisecond)
	w.equal("loading", w.ctl.Stats().Phase, PhaseLoading)
	a.finish("1", protocol.Confirmed)
	w.loadErr = nil
	w.advance(time.Second)
	a.finish("2", protocol.Confirmed)
	a.serve(confirmAll)
	w.advance(5 * time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 5)
	slices.Sort(a.order)
	w.equal("each ran once", a.order, []string{"1", "2", "3", "4", "x"})
}

func TestB239_BackEndDownForTenMinutes(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil)
	p := w.producer(10)
	w.submit(p, "", 30)
	down := func() error { return errFlaky }
	w.applyErr = func(queue.Batch) error { return errFlaky }
	w.loadErr = down
	a.serve(confirmAll) // what it holds it finishes
	w.advance(30 * time.Second)
	w.equal("finished", len(a.starts), 30)
	p.submit(newJob("new"))
	w.advance(10 * time.Minute)
	w.equal("failed", len(w.failed), 0)
	w.applyErr, w.loadErr = nil, nil
	w.advance(2 * time.Minute)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 31)
	w.equal("each ran once", len(a.starts), 31)
}

func TestARepeatedBatchKeepsItsCursor(t *testing.T) {
	// The first write happened and its answer was lost, while more submissions gathered: repeating it must not conflict.
	w := newWorld(t, nil)
	p := w.producer(10)
	n := 0
	w.lostReply = func(b queue.Batch) error {
		if n++; n == 1 {
			return errFlaky
		}
		return nil
	}
	p.submit(newJob("a"), newJob("b"), newJob("c"))
	w.advance(time.Second)
	w.equal("failed", len(w.failed), 0)
	w.equal("accepted", w.ctl.Stats().Accepted, 3)
	w.equal("cursor", w.ctl.Stats().Cursor, 3)
	w.equal("backlog", w.ctl.Stats().BacklogJobs, 3)
}

func TestLostRowAndFencedReader(t *testing.T) {
	for _, fenced := range []bool{false, true} {
		t.Run(fmt.Sprint("fenced ", fenced), func(t *testing.T) {
			w := newWorld(t, nil)
			w.submit(w.producer(10), "", 3)
			w.boot(nil)
			w.toWorker = func(*testWorker, protocol.ToWorker) bool { return true }
			epoch := w.ctl.Stats().Epoch
			if fenced {
				_, newer, err := w.queue.Load(t.Context(), "someone else", func(queue.Row) error { return nil })
				w.equal("takeover", err, nil)
				epoch = newer
			}
			// The row is settled behind the Controller's back: by a newer writer, or as a corruption would.
			_, err := w.queue.Apply(t.Context(), epoch, queue.Batch{Confirms: []queue.JobRef{{MessageID: "2", StoreSeq: 2}}})
			w.equal("settled elsewhere", err, nil)
			w.worker("a", nil)
			w.advance(time.Second)
			want := queue.ErrConflict
			if fenced {
				want = queue.ErrFenced
			}
			if len(w.failed) != 1 || !errors.Is(w.failed[0].Cause, want) {
				t.Fatalf("failed %v, want %v", w.failed, want)
			}
		})
	}
}

func TestFailingRowsAreFoundAmongGoodOnes(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", func(c *ConsumerConfig) { c.Concurrency = 50 })
	w.submit(w.producer(100), "", 50)
	bad := map[string]bool{"7": true, "8": true, "31": true}
	w.applyErr = failing(1_000_000, func(b queue.Batch) bool {
		return slices.ContainsFunc(b.Confirms, func(r queue.JobRef) bool { return bad[r.MessageID] })
	})
	a.serve(confirmAll)
	w.advance(2 * time.Minute)
	st := w.ctl.Stats()
	w.equal("found", []any{st.Confirmed, st.IsolatedConfirms, st.CreditWithheld, st.DirtyConfirms}, []any{47, 3, false, 3})
	w.equal("the worker is free", a.cons.Status(w.now).Unsettled, 0)
	delete(bad, "8")
	w.advance(2 * time.Minute)
	st = w.ctl.Stats()
	w.equal("one is written", []any{st.Confirmed, st.IsolatedConfirms}, []any{48, 2})
	clear(bad)
	w.advance(2 * time.Minute)
	st = w.ctl.Stats()
	w.equal("all are", []any{st.Confirmed, st.IsolatedConfirms, st.QueueError}, []any{50, 0, ""})
}

func TestAConfirmWhoseAnswerWasLostIsFoundByTheReload(t *testing.T) {
	w, a, p := withJobs(t, 2, func(c *ControllerConfig) { c.DeliveryConfirmation = true })
	w.lostReply = func(b queue.Batch) error { return errFlaky }
	a.finish("1", protocol.Confirmed)
	w.advance(10 * time.Millisecond)
	p.submit(newJob("new")) // its Store seems to fail as well, until the Controller reloads
	w.advance(time.Second)
	if w.loads < 2 {
		t.Fatal("no reload")
	}
	w.lostReply = nil
	a.serve(confirmAll)
	w.advance(10 * time.Second)
	w.equal("settled", len(w.settled), 3)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 3)
	w.equal("notices", len(p.confirmed), 3)
	w.equal("runs", len(a.starts), 3)
}

func TestAcceptsSurviveAReload(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.QueueAttempts = 1 })
	w.applyErr = failing(1, hasAccepts)
	w.submit(w.producer(10), "", 5)
	w.advance(10 * time.Second)
	w.equal("loads", w.loads, 2)
	for i := range 5 {
		state, _, _ := w.queue.Lookup(t.Context(), fmt.Sprint(i+1))
		w.equal("accepted", state.Accepted, true)
	}
}

func TestProducersAreAnsweredWhileTheQueueLoads(t *testing.T) {
	w := newWorld(t, nil)
	w.loadErr = func() error { return errFlaky }
	w.boot(nil)
	p := w.producer(1)
	p.send(protocol.Produced{Session: "before", Token: 1, Job: newJob("x")}, digestOf(newJob("x")))
	w.run()
	w.equal("refused", p.refused[0].Code, protocol.RefusedUnavailable)
	w.equal("pause", p.refused[0].RetryAfter > 0, true)
	w.loadErr = nil
	w.advance(time.Second)
	p.submit(newJob("x"))
	w.equal("accepted", w.ctl.Stats().Accepted, 1)
	ref, held := w.ctl.Holds(queue.JobRef{MessageID: "x"})
	w.equal("holds", []any{ref, held}, []any{queue.JobRef{MessageID: "x", StoreSeq: 1}, true})
	_, held = w.ctl.Holds(queue.JobRef{MessageID: "y"})
	w.equal("holds nothing else", held, false)
}

// reloadAfterRival gives the queue to another writer while the Controller, whose worker has confirmed job 1, waits for its reload. That
// one makes a dead letter of the job.
func reloadAfterRival(w *world, a *testWorker, p *testProducer) queue.JobRef {
	w.t.Helper()
	w.applyErr = func(queue.Batch) error { return errFlaky }
	w.loadErr = func() error { return errFlaky }
	a.finish("1", protocol.Confirmed)
	p.submit(newJob("new"))
	w.advance(time.Second)
	w.equal("phase", w.ctl.Stats().Phase, PhaseLoading)
	ref := queue.JobRef{MessageID: "1", StoreSeq: 1}
	_, epoch, err := w.queue.Load(w.t.Context(), "another", func(queue.Row) error { return nil })
	w.equal("takeover", err, nil)
	_, err = w.queue.Apply(w.t.Context(), epoch, queue.Batch{DeadLetters: []queue.DeadLetterRequest{{JobRef: ref, Attempts: 1, Reason: "elsewhere"}}})
	w.equal("dead letter", err, nil)
	w.applyErr, w.loadErr = nil, nil
	w.advance(time.Minute)
	return ref
}

// While this Controller reloads, another one owns the queue for a moment and makes a dead letter of a job that a worker of ours
// has confirmed. What we then say of it must be true.
func TestAReloadDoesNotGuessHowAJobEnded(t *testing.T) {
	w, a, p := withJobs(t, 1, nil)
	ref := reloadAfterRival(w, a, p)
	w.equal("settled", w.settled[0], JobSettled{Ref: ref, Reason: "confirmed"})
	w.confirmedOnce()
}

func (w *world) confirmedOnce() {
	w.t.Helper()
	state, _, _ := w.queue.Lookup(w.t.Context(), "1")
	w.equal("in the queue", state.Status, queue.StatusConfirmed)
	st := w.ctl.Stats()
	w.equal("dirty, letters, confirmed", []any{st.DirtyConfirms, st.DeadLetters, st.Confirmed}, []any{0, int64(0), uint64(1)})
}

// Until it is known what became of such a job, each load asks anew.
func TestEachLoadAsksWhatBecameOfAJob(t *testing.T) {
	w, a, p := withJobs(t, 1, nil)
	w.blind = true
	reloadAfterRival(w, a, p)
	w.equal("asked, and owed", []any{w.resolves, w.ctl.Stats().DirtyConfirms}, []any{1, 1})
	w.applyErr = failing(3, func(queue.Batch) bool { return true })
	p.submit(newJob("newer"))
	w.advance(time.Minute)
	w.equal("asked again", w.resolves, 2)
	w.blind = false
	w.applyErr = failing(3, func(queue.Batch) bool { return true })
	p.submit(newJob("newest"))
	w.advance(time.Minute)
	w.confirmedOnce()
}

// A person may drop such a job at the other writer: whoever waits for it hears that, whatever its handler said.
func TestAFinishedJobThatIsDroppedIsNotCalledConfirmed(t *testing.T) {
	w, a, p := withJobs(t, 1, nil)
	w.blind = true
	ref := reloadAfterRival(w, a, p)
	w.equal("drop", w.queue.Drop(t.Context(), w.ctl.epoch, ref, "test"), nil)
	w.step(Dropped{w.ctl.epoch, ref})
	w.blind = false
	w.applyErr = failing(3, func(queue.Batch) bool { return true })
	p.submit(newJob("newer"))
	w.advance(time.Minute)
	w.equal("settled", w.settled[0], JobSettled{Ref: ref, DeadLettered: true, Reason: "a person dropped it"})
	st := w.ctl.Stats()
	w.equal("dirty, letters, confirmed", []any{st.DirtyConfirms, st.DeadLetters, st.Confirmed}, []any{0, int64(0), uint64(0)})
}

// A person may put such a job back before it is known what became of it: the proof that its handler finished counts for it then.
func TestAFinishedJobThatIsPutBackIsNotRunAgain(t *testing.T) {
	w, a, p := withJobs(t, 1, nil)
	w.blind = true
	ref := reloadAfterRival(w, a, p)
	runs := len(a.starts)
	w.step(w.redrive(ref))
	w.advance(time.Minute)
	w.equal("runs", len(a.starts), runs)
	w.confirmedOnce()
}

// A dead letter whose write was done and not reported is counted once by the load that finds it.
func TestADeadLetterWhoseAnswerWasLostIsCountedOnce(t *testing.T) {
	w, a, p := withJobs(t, 1, nil)
	w.lostReply = func(queue.Batch) error { return errFlaky }
	a.finish("1", protocol.Rejected)
	p.submit(newJob("new"))
	w.advance(time.Second)
	w.equal("reloaded", w.loads > 1, true)
	w.lostReply = nil
	w.advance(time.Minute)
	st := w.ctl.Stats()
	w.equal("counted", []any{st.DeadLetters, st.DeadLettered, st.DirtyConfirms}, []any{1, 1, 0})
	w.equal("settled", w.settled[0].DeadLettered, true)
}
