package delivery

import (
	"math"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// B-072: a worker that knows the newer epoch never goes back to an older one of the same queue.
func TestB072_NoWayBackToAnOlderEpoch(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil)
	old := w.ctl
	ref := a.ref()
	w.boot(nil) // another process takes the queue over
	a.connect()
	newer := a.ref()
	if newer == ref || newer.BindingID == "" {
		t.Fatalf("bindings %v and %v", ref, newer)
	}
	// The old process lives on and answers the next dial.
	replaced := w.ctl
	w.ctl = old
	a.disconnect()
	a.connect()
	w.equal("bound to the old one", a.ref(), newer)
	st := a.cons.Status(w.now)
	w.equal("detected", []any{st.OlderEpochs, st.Dropped["older-epoch"], st.Registered}, []any{1, 1, false})
	if st.LastRefusal == "" {
		t.Error("nothing tells why the worker is not bound")
	}
	w.ctl = replaced
	a.disconnect()
	a.connect()
	w.advance(2 * time.Second)
	w.equal("bound again", a.cons.Status(w.now).Registered, true)
	w.equal("rivals", a.cons.Status(w.now).Rivals, 0)
}

// A controller that was replaced and has nothing to write learns of it by the workers that turn away: else both would wait for ever.
func TestReplacedControllerLearnsOfItByItsWorkers(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil)
	w.advance(time.Second)
	old := w.ctl
	w.boot(nil)
	a.connect()
	w.equal("bound to the new one", a.cons.Status(w.now).Registered, true)
	w.ctl = old // the new process has died, and the old one is all that is left
	a.disconnect()
	a.connect()
	w.advance(time.Second)
	w.equal("fenced", len(w.failed), 1)
	w.equal("counted", old.Stats().Dropped["older-epoch"], 1)
	w.boot(nil)
	a.connect()
	w.advance(time.Second)
	w.equal("bound again", a.cons.Status(w.now).Registered, true)
}

// A queue that was set back, as the restore of a backup does, counts epochs that its workers have left behind. They follow it all the same
// once a write has proven that nobody else owns it, and so does every producer after it.
func TestWorkersFollowAQueueThatWasSetBack(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.worker("a", nil).serve(confirmAll), w.worker("b", nil).serve(confirmAll)
	w.equal("queues known", len(a.cons.registration.lineage.queues), 1)
	a.cons.registration.lineage.queues[0].epoch = 1000
	b.cons.registration.lineage.queues[0].epoch = 2000
	for range 3 {
		w.boot(nil)
		a.connect()
		b.connect()
		w.advance(5 * time.Second)
		w.equal("registered", []bool{a.cons.Status(w.now).Registered, b.cons.Status(w.now).Registered}, []bool{true, true})
		w.equal("rivals", a.cons.Status(w.now).Rivals+b.cons.Status(w.now).Rivals, 0)
	}
	w.submit(w.producer(10), "job", 2)
	w.advance(time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 2)
	w.equal("failed", len(w.failed), 0)
}

// A worker that lies about the epoch that it has seen takes the flow away from nobody, however high it aims.
func TestALieAboutTheEpochStopsNobody(t *testing.T) {
	for _, lie := range []uint64{math.MaxUint64, math.MaxUint64 - 1} {
		w := newWorld(t, nil)
		a, liar := w.worker("a", nil), w.worker("liar", nil)
		for range 3 {
			liar.inject(protocol.RegisterConsumer{
				Version: protocol.Version, Nonce: w.rnd.ID(), Incarnation: liar.inc, Window: 50, Epoch: lie, Queue: w.ctl.queueName,
			})
			a.disconnect()
			a.connect()
			w.advance(5 * time.Second)
			w.equal("registered", a.cons.Status(w.now).Registered, true)
			w.boot(nil)
			a.connect()
			liar.connect()
			w.advance(5 * time.Second)
			w.equal("registered at the next producer", a.cons.Status(w.now).Registered, true)
		}
	}
}

// B-217, A-012: two producers that share a name are detected and reported.
func TestB217_TwoProducersUnderOneName(t *testing.T) {
	ack := func(queue string, epoch uint64, session string) protocol.RegistrationAck {
		return protocol.RegistrationAck{Queue: queue, Epoch: epoch, Session: session}
	}
	for _, tc := range []struct {
		name          string
		acks          []protocol.RegistrationAck
		older, rivals uint64
	}{
		{"restarts of one producer", []protocol.RegistrationAck{ack("q", 1, "s1"), ack("q", 2, "s2"), ack("q", 2, "s2"), ack("q", 5, "s5")}, 0, 0},
		{"a queue made anew", []protocol.RegistrationAck{ack("q", 7, "s1"), ack("r", 1, "s2"), ack("r", 2, "s3")}, 0, 0},
		{"two queues in turns", []protocol.RegistrationAck{ack("q", 1, "s1"), ack("r", 1, "t1"), ack("q", 1, "s1"), ack("r", 1, "t1")}, 0, 2},
		{"a copy of the data", []protocol.RegistrationAck{ack("q", 3, "s1"), ack("q", 3, "t1")}, 0, 1},
		{"an older epoch", []protocol.RegistrationAck{ack("q", 3, "s3"), ack("q", 2, "s2"), ack("q", 3, "s3")}, 1, 0},
		{"an older epoch after another queue", []protocol.RegistrationAck{ack("q", 3, "s3"), ack("r", 1, "t1"), ack("q", 2, "s2")}, 1, 0},
		{"a controller that does not tell", []protocol.RegistrationAck{ack("q", 3, "s3"), ack("", 0, "u"), ack("q", 3, "s3")}, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var l lineage
			older := uint64(0)
			for _, m := range tc.acks {
				if !l.accept(m) {
					older++
				}
			}
			if l.older != tc.older || l.rivals != tc.rivals || older != tc.older {
				t.Fatalf("%d older, %d rivals, %d turned away", l.older, l.rivals, older)
			}
		})
	}
	var l lineage
	for i := range 100 {
		l.accept(ack(string(rune('a'+i)), 1, "s"))
	}
	if len(l.queues) > rememberedQueues {
		t.Fatalf("%d queues remembered", len(l.queues))
	}
}
