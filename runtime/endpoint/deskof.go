package endpoint

import (
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// deskOf is a Producer as the host of its own desk, whose messages need no stream. They gather until the loop comes to rest.
type deskOf struct{ *Producer }

// said is what the desk has said and the Controller has not heard.
type said struct {
	produced     []producedJob
	acknowledged []protocol.StoredAck
}

type producedJob struct {
	message protocol.Produced
	digest  queue.Digest
}

func (s *said) empty() bool { return len(s.produced)+len(s.acknowledged) == 0 }

func (s *said) clear() {
	clear(s.produced)
	clear(s.acknowledged)
	s.produced, s.acknowledged = s.produced[:0], s.acknowledged[:0]
}

// hearDesk gives the Controller all that its own desk has said, in one step.
func (p *Producer) hearDesk() {
	if p.controller != nil {
		for i := range p.said.acknowledged {
			p.controller.TakeStoredAck(p.deskConn, &p.said.acknowledged[i])
		}
		for i := range p.said.produced {
			job := &p.said.produced[i]
			p.controller.TakeProduced(p.loop.last, p.deskConn, &job.message, job.digest)
		}
	}
	p.said.clear()
	p.act()
}

// attachDesk opens the desk at a fresh Controller.
func (p *Producer) attachDesk() {
	p.deskConn = p.nextConn()
	p.step(delivery.ProducerAttached{Conn: p.deskConn, MaxCredits: p.options.Credits})
}

func (h deskOf) produce(message protocol.Produced, digest queue.Digest) {
	h.said.produced = append(h.said.produced, producedJob{message, digest})
}

func (h deskOf) acknowledge(message protocol.StoredAck) {
	h.said.acknowledged = append(h.said.acknowledged, message)
}

func (h deskOf) refusing() error {
	switch {
	case h.stopping || h.failure != nil:
		return ErrUnavailable
	case !h.intake.Open:
		return ErrSuspended
	}
	return nil
}

func (h deskOf) whyWaiting() error {
	if h.controller == nil || h.controller.Phase() != delivery.PhaseRunning {
		return ErrUnavailable
	}
	return &NoCreditError{RetryAfter: time.Second}
}

func (h deskOf) creditWait() delivery.Now { return h.options.CreditWait }

// answerWait is what all attempts of a write may take.
func (h deskOf) answerWait() delivery.Now {
	return time.Duration(max(1, h.config.QueueAttempts)) * (h.operationTimeout() + h.config.QueueBackoff)
}

func (h deskOf) now() delivery.Now  { return h.loop.last }
func (h deskOf) post(f func()) bool { return h.loop.post(f) }
