package endpoint

import (
	"context"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// runner is the way to a goroutine that runs one handler after the other, so that its stack grows once. A worker has as many as it had
// handlers at a time.
type runner chan assignment

// assignment is one invocation of a handler.
type assignment struct {
	start   delivery.StartHandler
	handler Handler
	ctx     context.Context //nolint:containedctx // the life of the attempt
	cancel  context.CancelCauseFunc
}

// finished is what became of an assignment. by takes another one; it is nil where the handler has ended its goroutine.
type finished struct {
	start  delivery.StartHandler
	result Result
	by     runner
}

// invoke runs one handler.
func (w *Worker) invoke(start delivery.StartHandler) {
	ctx, cancel := context.WithCancelCause(w.runCtx)
	w.runs[start.Run] = cancel
	a := assignment{start, w.links[start.Flow].source.Handler, ctx, cancel}
	if n := len(w.idle); n > 0 {
		w.idle[n-1] <- a // it waits for it
		w.idle = w.idle[:n-1]
		return
	}
	r := make(runner, 1)
	w.handlers.Go(func() { w.serve(r) })
	r <- a
}

// serve runs what it is given until the worker ends.
func (w *Worker) serve(r runner) {
	for a := range r {
		if !w.run(a, r) {
			return
		}
	}
}

// run runs one handler; false means that the worker has ended.
func (w *Worker) run(a assignment, r runner) (again bool) {
	f := finished{start: a.start, result: Result{Outcome: protocol.Nacked, Reason: "the handler ended its goroutine"}}
	defer func() { // also where the handler calls runtime.Goexit
		a.cancel(nil)
		again = w.report(f)
	}()
	f.result = w.handle(a.ctx, a.handler, a.start.Delivery)
	f.by = r
	return true
}

// report tells of a result; false means that the worker has ended. Where nobody else drives the machine this goroutine does, so that it gives
// itself its next assignment.
func (w *Worker) report(f finished) bool {
	first, open := w.results.put(f)
	if first {
		w.loop.do(w.take)
	}
	return open
}

func (w *Worker) takeResults() {
	for _, f := range w.results.take() {
		if f.by != nil {
			w.idle = append(w.idle, f.by)
		}
		w.handled(f.start, f.result)
	}
}

// dismiss ends the runners, once the loop has ended; those that still run a handler end with it.
func (w *Worker) dismiss() {
	for _, f := range w.results.close() {
		if f.result.Outcome == protocol.Confirmed { // the loop ended before it heard; what else the end has broken off stays in the running set
			w.options.Running.End(f.start.Delivery.Job.MessageID)
		}
		if f.by != nil {
			close(f.by)
		}
	}
	for _, r := range w.idle {
		close(r)
	}
	w.idle = nil
}
