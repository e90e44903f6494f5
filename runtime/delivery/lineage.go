package delivery

import (
	"slices"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// lineage is what a worker remembers of the queues that controllers spoke for, the latest last.
type lineage struct {
	queues []ancestry
	// older counts acknowledgements of an older epoch, rivals those that show two writers who do not know of each other.
	older, rivals uint64
}

// ancestry is the newest epoch of one queue that this worker has seen, and its session.
type ancestry struct {
	queue   string
	epoch   uint64
	session string
}

const rememberedQueues = 8

// latest is the queue that the worker pulled from last, with the newest epoch of it.
func (l *lineage) latest() (epoch uint64, queue string) {
	if len(l.queues) == 0 {
		return 0, ""
	}
	last := l.queues[len(l.queues)-1]
	return last.epoch, last.queue
}

// accept judges the epoch of an acknowledgement and remembers it. One of an older epoch than that of the same queue seen before
// comes from a controller that was replaced and does not know it: it must not be followed (B-072). A queue that the worker had left
// for another one, or a second session of one epoch, shows two producers that share the flow's name: they are followed, for nobody
// here can tell which is right, and counted (B-217).
func (l *lineage) accept(m protocol.RegistrationAck) bool {
	if m.Queue == "" {
		return true
	}
	seen := ancestry{m.Queue, m.Epoch, m.Session}
	at := slices.IndexFunc(l.queues, func(a ancestry) bool { return a.queue == m.Queue })
	if at < 0 {
		l.queues = append(l.queues, seen)
		l.queues = l.queues[max(0, len(l.queues)-rememberedQueues):]
		return true
	}
	before := l.queues[at]
	if m.Epoch < before.epoch {
		l.older++
		return false
	}
	if at != len(l.queues)-1 || m.Epoch == before.epoch && m.Session != before.session {
		l.rivals++
	}
	l.queues = append(slices.Delete(l.queues, at, at+1), seen)
	return true
}
