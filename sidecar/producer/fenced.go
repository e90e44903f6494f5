package producer

import (
	"slices"
	"sync"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// mostFenced bounds how many ends of this process are reported. The operator takes each in within seconds.
const mostFenced = 8

// fencedTurns are the turns of this process that another member has ended, the oldest first. The epoch tells them apart, also from those of
// other processes of the pod: every load of a queue has one of its own.
type fencedTurns struct {
	mu    sync.Mutex
	turns []*protocolv1.FencedIncarnation
}

// add takes in the end of a turn. failure is what was refused, nil where the member saw by itself that it has lost the queue. A turn that
// never loaded the queue was no incarnation of its writer.
func (f *fencedTurns) add(epoch uint64, failure *delivery.Failed, cause string) {
	if epoch == 0 {
		return
	}
	turn := &protocolv1.FencedIncarnation{Epoch: epoch, Reason: cause}
	if failure != nil {
		turn.Stage, turn.Reason = string(failure.Stage), protocol.ClipReason(failure.Cause.Error())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turns = append(f.turns, turn)
	f.turns = f.turns[max(0, len(f.turns)-mostFenced):]
}

// list is what is reported of them.
func (f *fencedTurns) list() []*protocolv1.FencedIncarnation {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.turns)
}
