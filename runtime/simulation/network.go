package simulation

import (
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// direction is one way of a stream.
type direction struct {
	last time.Duration // arrival of the latest message that kept its place
	dark bool          // messages vanish and nobody is told: the half-open connection
	// ordered keeps messages in order whatever the network is like; they may still be lost and repeated.
	ordered bool
}

// network returns the present state of every link.
func (w *world) network() network {
	if w.healing {
		return calmNetwork
	}
	return w.profile.Network
}

// transmit carries one message: zero, one or two arrivals, in or out of order.
func (w *world) transmit(d *direction, lost bool, arrive func()) {
	w.counts.Messages++
	n := w.network()
	if d.dark || lost {
		return
	}
	if w.chance(n.drop) {
		w.count(MessageDropped)
		return
	}
	copies := 1
	if w.chance(n.repeat) {
		w.count(MessageRepeated)
		copies = 2
	}
	for range copies {
		at := w.now + n.latency + w.upTo(n.jitter)
		if !d.ordered && w.chance(n.reorder) {
			w.count(MessageReordered)
		} else {
			at = max(at, d.last)
			d.last = at
		}
		w.timeline.plan(at, arrive)
	}
}

// peer is the worker end of a stream: a sidecar or an intruder.
type peer interface {
	where() *pod
	heard(s *stream, message protocol.ToWorker)
	cut(s *stream)
}

// stream is one connection of a worker to a producer.
type stream struct {
	w                  *flow
	producer           *producer
	peer               peer
	atProducer, atPeer delivery.ConnID
	producerKnows      bool // that the stream is open
	up, down           direction
}

func (s *stream) lost() bool { return s.peer.where().dark }

func (s *stream) toProducer(m protocol.FromWorker) {
	s.w.transmit(&s.up, s.lost(), func() {
		if s.producer.awake() {
			s.hear(m)
			return
		}
		s.producer.receive(func() { s.hear(m) })
	})
}

// hear is a message's arrival at the producer.
func (s *stream) hear(m protocol.FromWorker) {
	if !s.producerKnows {
		if !s.w.chance(0.5) {
			return
		}
		s.w.count(StaleStreamMessage)
	}
	s.producer.take(delivery.WorkerMessage{Conn: s.atProducer, Message: m})
}

func (s *stream) toPeer(m protocol.ToWorker) {
	s.w.transmit(&s.down, s.lost(), func() { s.peer.heard(s, m) })
}

// keepalive is how long a host takes to notice a dead stream that nobody could tell it about.
const keepalive = 20 * time.Second

// endAtProducer tells the producer, after a while, that the stream is over.
func (s *stream) endAtProducer(after time.Duration) {
	if s.up.dark || s.lost() {
		after += keepalive
	}
	s.w.plan(after, func() {
		s.producer.receive(func() {
			if s.producerKnows {
				s.producerKnows = false
				s.producer.forget(s)
				s.producer.take(delivery.WorkerDisconnected{Conn: s.atProducer})
			}
		})
	})
}

// endAtPeer tells the worker, after a while, that the stream is over.
func (s *stream) endAtPeer(after time.Duration) {
	if s.down.dark || s.lost() {
		after += keepalive
	}
	s.w.plan(after, func() { s.peer.cut(s) })
}

// end cuts the stream; both ends learn of it, each in its own time, unless the link is dark.
func (s *stream) end() {
	s.endAtProducer(s.w.upTo(200 * time.Millisecond))
	s.endAtPeer(s.w.upTo(200 * time.Millisecond))
}
