package simulation

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"strings"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// trace is the story of a run. Its hash always grows; its text is kept only when somebody will read it, because formatting
// costs more than running.
type trace struct {
	hash  uint64
	keep  int
	lines []string
	next  int
}

func newTrace(keep int) *trace { return &trace{hash: 14695981039346656037, keep: keep} }

func (t *trace) mix(n uint64) { t.hash = (t.hash ^ n) * 1099511628211 }

func (t *trace) line(s string) {
	h := fnv.New64a()
	h.Write([]byte(s))
	t.mix(h.Sum64())
	if len(t.lines) < t.keep {
		t.lines = append(t.lines, s)
		return
	}
	t.lines[t.next] = s
	t.next = (t.next + 1) % t.keep
}

func (t *trace) tail() []string {
	return append(append([]string{}, t.lines[t.next:]...), t.lines[:t.next]...)
}

func (w *world) tracing() bool { return w.trace.keep > 0 }

// note writes one line about what the world does.
func (w *world) note(who, format string, args ...any) {
	w.trace.mix(uint64(w.now))
	if w.tracing() {
		w.trace.line(fmt.Sprintf("%6d %11s  %-10s %s", w.step, w.now.Round(time.Microsecond), who, fmt.Sprintf(format, args...)))
	}
}

// told writes one line about an event into or an action out of a machine.
func (w *world) told(who, arrow string, what any) {
	w.trace.mix(uint64(w.now))
	if w.tracing() {
		w.note(who, "%s %s", arrow, describe(what))
	}
}

// describe prints a message without its payloads.
func describe(what any) string {
	switch v := what.(type) {
	case delivery.ProducerMessage:
		return fmt.Sprintf("from endpoint %d: %s", v.Conn, describe(v.Message))
	case delivery.WorkerMessage:
		return fmt.Sprintf("from worker %d: %s", v.Conn, describe(v.Message))
	case delivery.FromController:
		return fmt.Sprintf("from controller %d: %s", v.Conn, describe(v.Message))
	case delivery.ToProducer:
		return fmt.Sprintf("to endpoint %d: %s", v.Conn, describe(v.Message))
	case delivery.ToWorker:
		return fmt.Sprintf("to worker %d: %s", v.Conn, describe(v.Message))
	case delivery.ToController:
		return fmt.Sprintf("to controller %d: %s", v.Conn, describe(v.Message))
	case delivery.StartHandler:
		return fmt.Sprintf("StartHandler run %d %s", v.Run, describe(v.Delivery))
	case protocol.Produced:
		return fmt.Sprintf("Produced %s token %d %s", v.Session, v.Token, v.Job.MessageID)
	case protocol.Delivery:
		again := ""
		if v.Redelivered {
			again = " again"
		}
		return fmt.Sprintf("[%d %s#%d attempt %d%s]", v.WorkerSeq, v.Job.MessageID, v.StoreSeq, v.Attempt, again)
	case protocol.SequencedMessage:
		parts := make([]string, len(v.Deliveries))
		for i, d := range v.Deliveries {
			parts[i] = describe(d)
		}
		return fmt.Sprintf("SequencedMessage %s %s", v.BindingID, strings.Join(parts, " "))
	case delivery.ApplyBatch:
		return fmt.Sprintf("ApplyBatch op %d epoch %d %s", v.Op, v.Epoch, describe(v.Batch))
	case queue.Batch:
		stores := make([]string, len(v.Stores))
		for i, s := range v.Stores {
			stores[i] = s.Job.MessageID
		}
		return fmt.Sprintf("cursor %d stores %v accepts %v attempts %v dead %v confirms %v",
			v.Cursor, stores, v.Accepts, v.Attempts, v.DeadLetters, v.Confirms)
	case delivery.JobsRead:
		return fmt.Sprintf("JobsRead op %d, %d jobs, %v", v.Op, len(v.Jobs), v.Err)
	default:
		t := reflect.TypeOf(what)
		return fmt.Sprintf("%s%+v", t.Name(), what)
	}
}
