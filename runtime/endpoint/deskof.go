package endpoint

import (
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// deskOf is a Producer as the host of its own desk, whose messages need no stream.
type deskOf struct{ *Producer }

// attachDesk opens the desk at a fresh Controller.
func (p *Producer) attachDesk() {
	p.deskConn = p.nextConn()
	p.step(delivery.ProducerAttached{Conn: p.deskConn, MaxCredits: p.options.Credits})
}

func (h deskOf) say(message protocol.FromProducer, digest queue.Digest) {
	h.step(delivery.ProducerMessage{Conn: h.deskConn, Message: message, Digest: digest})
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
func (h deskOf) now() delivery.Now        { return h.loop.last }
func (h deskOf) post(f func()) bool       { return h.loop.post(f) }
