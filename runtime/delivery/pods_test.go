package delivery

import (
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// named is a worker whose pod has a name of its own: a StatefulSet gives the name of a dead pod to the next one.
func (w *world) named(uid, pod string) *testWorker {
	tw := w.worker(uid, nil)
	tw.disconnect()
	tw.pod = pod
	tw.connect()
	return tw
}

func TestB086_NextPodOfTheSameNameStartsAnew(t *testing.T) {
	w := newWorld(t, nil)
	a := w.named("uid-1", "worker-0")
	w.submit(w.producer(10), "", 3)
	w.advance(100 * time.Millisecond)
	old := a.ref()
	a.kill()
	w.submit(w.producer(10), "new", 1)
	b := w.named("uid-2", "worker-0").serve(confirmAll)
	w.advance(time.Second)
	if b.ref().BindingID == old.BindingID {
		t.Fatal("the next pod inherited the binding")
	}
	w.equal("order", b.order, []string{"1", "2", "3", "new1"})
	w.equal("first sequence", b.starts[0].WorkerSeq, 1)
	w.equal("bindings", len(w.ctl.Stats().Bindings), 1)
}

// A forced deletion lets two pods of one name live at once. They are two workers: nothing goes back and forth between them.
func TestB090_TwoLivePodsOfOneNameAreTwoWorkers(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.named("uid-1", "worker-0"), w.named("uid-2", "worker-0")
	w.submit(w.producer(10), "", 4)
	refs := []protocol.BindingRef{a.ref(), b.ref()}
	for range 20 { // both go on asking who they are
		w.advance(10 * time.Second)
		a.register(w.rnd.ID())
		b.register(w.rnd.ID())
	}
	w.equal("bindings", []protocol.BindingRef{a.ref(), b.ref()}, refs)
	w.equal("bindings ever", w.ctl.bindings, 2)
	w.equal("running", []int{len(a.running), len(b.running)}, []int{1, 1})
	w.equal("redelivered", w.ctl.Stats().Redelivered, 0)
	a.serve(confirmAll)
	b.serve(confirmAll)
	w.advance(time.Second)
	w.equal("starts", len(a.starts)+len(b.starts), 4)
}

func TestB163_ConfirmThatDiesWithItsWorker(t *testing.T) {
	w, a, _ := withJobs(t, 1, nil)
	w.advance(100 * time.Millisecond)
	w.fromWorker = func(tw *testWorker, m protocol.FromWorker) bool {
		_, ack := m.(protocol.Ack)
		return tw != a || !ack
	}
	a.finish("1", protocol.Confirmed)
	w.advance(10 * time.Millisecond)
	a.kill()
	w.equal("confirmed", w.ctl.Stats().Confirmed, 0)
	b := w.worker("b", nil).serve(confirmAll)
	w.advance(time.Second)
	w.equal("runs again under its id", b.order, []string{"1"})
	w.equal("attempt", b.starts[0].Attempt, 2)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 1)
}

// A drain that is cut off by SIGKILL: the job that was running is a lost try and says why; the others never were.
func TestB173_GraceShorterThanTheJob(t *testing.T) {
	w, a, _ := withJobs(t, 3, nil)
	w.advance(100 * time.Millisecond)
	a.step(Cordon{Force: true})
	w.advance(5 * time.Second)
	w.equal("drained", a.drained, 0)
	w.equal("handed back", w.ctl.Stats().BacklogJobs, 2)
	a.kill()
	w.equal("attempts", []int32{w.job("1").attempts, w.job("2").attempts}, []int32{1, 0})
	var records []queue.AttemptRecord
	for _, b := range w.batches {
		records = append(records, b.Attempts...)
	}
	w.equal("recorded", []any{len(records), records[0].MessageID, records[0].LastReason},
		[]any{1, "1", "the worker was lost while it ran the job"})
	b := w.worker("b", nil).serve(confirmAll)
	w.advance(time.Second)
	w.equal("order", b.order, []string{"1", "2", "3"})
}
