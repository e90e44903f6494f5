package delivery

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

func TestB221_NewcomerGetsWorkAtOnce(t *testing.T) {
	w, _, p := withJobs(t, 50, nil)
	w.submit(p, "more", 10)
	w.equal("backlog", w.ctl.Stats().BacklogJobs, 10)
	b := w.worker("b", nil)
	w.equal("held by the newcomer", b.cons.Status(w.now).Unsettled, 10)
}

func TestB223_ScaleUpAndDownUnderLoad(t *testing.T) {
	w := newWorld(t, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	p := w.producer(200)
	slow := func(protocol.Delivery) protocol.Outcome {
		if rng.IntN(3) == 0 {
			return 0 // still running when its worker dies
		}
		return protocol.Confirmed
	}
	serial := 0
	for range 4 {
		var pool []*testWorker
		for range 50 {
			serial++
			pool = append(pool, w.worker(fmt.Sprint("w", serial), func(c *ConsumerConfig) { c.Window = 3 }).serve(slow))
		}
		w.submit(p, w.rnd.ID()+"-", 200)
		w.advance(200 * time.Millisecond)
		for _, i := range rng.Perm(len(pool)) {
			pool[i].kill()
		}
		w.equal("in flight", w.ctl.Stats().InFlight, 0)
	}
	for i := range 10 {
		w.worker(fmt.Sprint("last", i), nil).serve(confirmAll)
	}
	w.advance(10 * time.Minute)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 800)
}

// TestB226 compares the cost of a job over a short and a long backlog; the benchmark has the figures. Only the best of many short
// samples counts, because other programs share the machine.
func TestB226_CostPerJobDoesNotGrowWithTheBacklog(t *testing.T) {
	cost := func(backlog int) time.Duration {
		c := newBenchController(backlog)
		c.bind(b226Window)
		best := time.Hour
		for range 50 {
			begin := time.Now()
			c.run(100)
			best = min(best, time.Since(begin))
		}
		return best
	}
	// A linear scan would make it forty times dearer; memory alone makes it a few times.
	short, long := cost(6_000), cost(240_000)
	if long > 10*short {
		t.Fatalf("100 jobs take %v over a backlog of 240,000 and %v over one of 6,000", long, short)
	}
}

const b226Window = 64

// benchController drives a Controller without a network, a queue or a Consumer.
type benchController struct {
	ctl  *Controller
	now  Now
	ref  protocol.BindingRef
	todo []Event
	acks []protocol.Settlement
	done int

	session string
	granted uint64
}

func newBenchController(backlog int) *benchController {
	b := &benchController{ctl: NewController(DefaultControllerConfig(), &testRandom{})}
	rows := make([]queue.Row, backlog)
	for i := range rows {
		rows[i] = queue.Row{JobRef: queue.JobRef{MessageID: fmt.Sprintf("job-%08d", i), StoreSeq: int64(i + 1)}, PayloadBytes: 100, Accepted: true}
	}
	b.step(Start{})
	for _, ev := range b.todo {
		if l, ok := ev.(Loaded); ok {
			l.Rows, l.State.Cursor, l.Epoch = rows, int64(backlog), 1
			b.todo = nil
			b.step(l)
		}
	}
	return b
}

func (b *benchController) step(ev Event) {
	for _, a := range b.ctl.Step(b.now, ev) {
		switch a := a.(type) {
		case LoadQueue:
			b.todo = append(b.todo, Loaded{Op: a.Op})
		case ApplyBatch:
			r := queue.Result{Cursor: a.Batch.Cursor}
			for range a.Batch.Stores {
				r.Cursor++
				r.Stores = append(r.Stores, queue.StoreResult{StoreSeq: r.Cursor, Verdict: protocol.StoredNew})
			}
			b.todo = append(b.todo, Applied{Op: a.Op, Result: r})
		case ReadJobs:
			jobs := make([]protocol.Job, len(a.Seqs))
			for i, seq := range a.Seqs {
				jobs[i] = protocol.Job{MessageID: fmt.Sprintf("job-%08d", seq-1), Payload: benchPayload}
			}
			b.todo = append(b.todo, JobsRead{Op: a.Op, Jobs: jobs})
		case ToProducer:
			switch m := a.Message.(type) {
			case protocol.RequestNext:
				b.session, b.granted = m.Session, m.UpTo
			case protocol.Stored:
				b.todo = append(b.todo, ProducerMessage{Conn: a.Conn, Message: protocol.StoredAck{
					Session: m.Session, Token: m.Token, MessageID: m.MessageID,
				}})
			}
		case ToWorker:
			switch m := a.Message.(type) {
			case protocol.RegistrationAck:
				b.ref = protocol.BindingRef{BindingID: m.BindingID, Secret: m.Secret}
			case protocol.SequencedMessage:
				for _, d := range m.Deliveries {
					b.acks = append(b.acks, protocol.Settlement{
						WorkerSeq: d.WorkerSeq, MessageID: d.Job.MessageID, Attempt: d.Attempt, Outcome: protocol.Confirmed,
					})
				}
			}
		case JobSettled:
			b.done++
		}
	}
}

var benchPayload = make([]byte, 100)

func (b *benchController) bind(window int) {
	b.step(WorkerConnected{Conn: 1, Worker: Worker{PodUID: "pod"}})
	b.step(WorkerMessage{1, protocol.RegisterConsumer{
		Version: protocol.Version, Nonce: "n", Incarnation: protocol.Incarnation{PodUID: "pod", BootNonce: "b"}, Window: window,
	}})
	b.step(WorkerMessage{1, protocol.Request{BindingRef: b.ref, RequestUpTo: int64(window)}})
}

// run settles n more jobs, in Acks of at most 16.
func (b *benchController) run(n int) {
	for target := b.done + n; b.done < target; {
		b.pump()
	}
}

// pump answers one thing that the Controller asked for.
func (b *benchController) pump() {
	if len(b.todo) > 0 {
		ev := b.todo[0]
		b.todo = b.todo[:copy(b.todo, b.todo[1:])]
		b.step(ev)
		return
	}
	k := min(16, len(b.acks))
	if k == 0 {
		panic("nothing to settle")
	}
	ack := protocol.Ack{BindingRef: b.ref, Settlements: b.acks[:k]}
	last := b.acks[k-1].WorkerSeq
	b.acks = append([]protocol.Settlement(nil), b.acks[k:]...)
	ack.StartedSeq = last
	b.step(WorkerMessage{1, ack})
	b.step(WorkerMessage{1, protocol.Request{BindingRef: b.ref, ConfirmedSeq: last, RequestUpTo: last + b226Window, StartedSeq: last}})
}
