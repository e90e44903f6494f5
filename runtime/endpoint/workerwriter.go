package endpoint

import (
	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/protocol/wire"
)

// workerWriter writes to one worker's stream. It belongs to the goroutine that sends.
type workerWriter struct {
	stream pb.WorkPulling_PullServer
	// window is that of the binding, delivered the highest sequence sent, and told up to where the worker knows that all is taken over.
	window, delivered, told int64
}

func (w *workerWriter) send(messages ...protocol.ToWorker) error {
	for _, message := range messages {
		w.note(message)
	}
	for _, frame := range wire.EncodeToWorker(messages...) {
		if err := w.stream.Send(frame); err != nil {
			return err
		}
	}
	return nil
}

func (w *workerWriter) note(message protocol.ToWorker) {
	switch m := message.(type) {
	case protocol.RegistrationAck:
		w.window, w.delivered, w.told = int64(m.Window), m.NextSeq-1, m.NextSeq-1
	case protocol.SequencedMessage:
		if n := len(m.Deliveries); n > 0 {
			w.delivered = max(w.delivered, m.Deliveries[n-1].WorkerSeq)
		}
	case protocol.SettledAck:
		w.told = max(w.told, m.UpTo)
	}
}

// unhurried is the word that settlements are taken over, while the worker has demand for half a window without it: else that word is what
// lets it ask for more.
func (w *workerWriter) unhurried(message protocol.ToWorker) bool {
	_, settled := message.(protocol.SettledAck)
	return settled && w.delivered-w.told < w.window/2
}
