package endpoint

import (
	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// runner is a goroutine that runs one handler after the other, so that its stack grows once. A worker has as many as it had handlers at a
// time. It belongs to the loop while it waits, and to its goroutine from an assignment to the report.
type runner struct {
	assigned chan *attempt
	start    delivery.StartHandler
	handler  Handler
	result   Result
	gone     bool // the handler has ended the goroutine
}

// invoke runs one handler.
func (w *Worker) invoke(start *delivery.StartHandler) {
	a := &attempt{worker: w.runCtx}
	w.runs[start.Run] = a
	r := w.runner()
	r.start, r.handler = *start, w.links[start.Flow].source.Handler
	r.assigned <- a // it waits for it
}

// runner takes one that waits, or makes another.
func (w *Worker) runner() *runner {
	if n := len(w.idle); n > 0 {
		r := w.idle[n-1]
		w.idle = w.idle[:n-1]
		return r
	}
	r := &runner{assigned: make(chan *attempt, 1)}
	w.handlers.Go(func() { w.serve(r) })
	return r
}

// serve runs what it is given until the worker ends.
func (w *Worker) serve(r *runner) {
	for a := range r.assigned {
		if !w.run(a, r) {
			return
		}
	}
}

// run runs one handler; false means that the worker has ended.
func (w *Worker) run(a *attempt, r *runner) (again bool) {
	r.result, r.gone = Result{Outcome: protocol.Nacked, Reason: "the handler ended its goroutine"}, true
	defer func() { // also where the handler calls runtime.Goexit
		a.end(nil)
		again = w.report(r)
	}()
	r.result = w.handle(a, r.handler, &r.start.Delivery)
	r.gone = false
	return true
}

// report tells of a result; false means that the worker has ended. Where nobody else drives the machine this goroutine does, so that it gives
// itself its next assignment.
func (w *Worker) report(r *runner) bool {
	first, open := w.results.put(r)
	if first {
		w.loop.do(w.take)
	}
	return open
}

func (w *Worker) takeResults() {
	for _, r := range w.results.take() {
		w.handled(r)
		r.start, r.result = delivery.StartHandler{}, Result{} // it may wait for long
		if !r.gone {
			w.idle = append(w.idle, r)
		}
	}
	w.act()
}

// dismiss ends the runners, once the loop has ended; those that still run a handler end with it.
func (w *Worker) dismiss() {
	for _, r := range w.results.close() {
		if r.result.Outcome == protocol.Confirmed { // the loop ended before it heard; what else the end has broken off stays in the running set
			w.options.Running.End(r.start.Delivery.Job.MessageID)
		}
		close(r.assigned)
	}
	for _, r := range w.idle {
		close(r.assigned)
	}
	w.idle = nil
}
