package simulation

import (
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// link is what a sidecar has to do with one flow: the stream to its producer, and what it said and heard on it.
type link struct {
	s       *sidecar
	flow    *flow
	stream  *stream
	dialing bool

	// As the messages show it:
	conn          delivery.ConnID // of the latest stream
	answeredOn    delivery.ConnID // the stream on which its latest registration was acknowledged
	left          delivery.ConnID // the latest stream that the worker left by itself
	binding       string          // the last that it acknowledged by speaking in its name
	hold          int             // how often the binding changed
	demand        int64           // the highest RequestUpTo of that binding
	grants        map[string]*grant
	nonce         string // of its latest registration; answeredNonce is that of the latest that was acknowledged
	answeredNonce string
	lastStarted   int64 // the highest worker sequence started in the binding
	lastHeard     time.Duration
	lastSaid      delivery.Now           // by the worker's clock
	pending       map[int64]delivery.Now // when a settlement of that binding was said last that is not taken over
	heartbeat     time.Duration          // the longest that it was told
	deadline      time.Duration
	waits         bool // a delivery of it is buffered, and nothing keeps the worker from starting it
	passed        int  // how many others were started meanwhile
}

func (s *sidecar) linkTo(title string) *link {
	for _, l := range s.links {
		if l.flow.title == title {
			return l
		}
	}
	s.w.violate("action", "%s speaks of flow %q", s.name, title)
	return s.links[0]
}

// linkOn finds the link whose latest stream is conn, or nil.
func (s *sidecar) linkOn(conn delivery.ConnID) *link {
	for _, l := range s.links {
		if l.conn == conn {
			return l
		}
	}
	return nil
}

// streamOf finds the open stream conn, or nil.
func (s *sidecar) streamOf(conn delivery.ConnID) *stream {
	if l := s.linkOn(conn); l != nil && l.stream != nil && l.stream.atPeer == conn {
		return l.stream
	}
	return nil
}

// anyStream is one of the open streams, or nil.
func (s *sidecar) anyStream() *stream {
	if s == nil {
		return nil
	}
	var open []*stream
	for _, l := range s.links {
		if l.stream != nil {
			open = append(open, l.stream)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return open[s.w.rng.IntN(len(open))]
}

func (s *sidecar) where() *pod { return s.pod }

func (s *sidecar) heard(from *stream, m protocol.ToWorker) {
	if s.awake() {
		s.hear(from, m)
		return
	}
	s.receive(func() { s.hear(from, m) })
}

func (s *sidecar) hear(from *stream, m protocol.ToWorker) {
	if s.linkTo(from.w.title).stream != from {
		if !s.w.chance(0.5) {
			return
		}
		s.w.count(StaleStreamMessage)
	}
	s.take(delivery.FromController{Conn: from.atPeer, Message: m})
}

func (s *sidecar) cut(from *stream) {
	s.receive(func() {
		if l := s.linkTo(from.w.title); l.stream == from {
			l.stream = nil
			s.take(delivery.Disconnected{Conn: from.atPeer})
			l.dial(100*time.Millisecond + s.w.upTo(500*time.Millisecond))
		}
	})
}

// dial opens a stream after a while, and tries again until it succeeds.
func (l *link) dial(after time.Duration) {
	if l.dialing {
		return
	}
	s := l.s
	l.dialing = true
	s.w.plan(after, func() {
		s.receive(func() {
			l.dialing = false
			if p := l.flow.route(); l.stream == nil && p.serves() && !s.pod.dark {
				l.open(p)
				return
			}
			l.dial(200*time.Millisecond + s.w.upTo(time.Second))
		})
	})
}

func (l *link) open(p *producer) {
	s := l.s
	s.conns++
	l.conn = s.conns
	st := &stream{w: l.flow, producer: p, peer: s, atPeer: s.conns, atProducer: p.nextConn(), producerKnows: true}
	p.streams[st.atProducer] = st
	l.stream = st
	p.take(delivery.WorkerConnected{Conn: st.atProducer, Worker: s.pod.verified()})
	if l.stream == st {
		s.take(delivery.Connected{Conn: st.atPeer, Flow: l.flow.title})
	}
}

// abandon is the end of the sidecar's process. A dying process closes its sockets; a dying node does not, and what it sent last may
// still be on its way.
func (l *link) abandon() {
	st, s := l.stream, l.s
	if st == nil {
		return
	}
	switch {
	case s.w.chance(0.7):
		st.endAtProducer(s.w.upTo(100 * time.Millisecond))
	case s.w.chance(0.5):
		s.w.count(StreamHalfOpen)
	default:
		s.w.count(LateRegistration)
		last := protocol.RegisterConsumer{
			Version: protocol.Version, Nonce: s.w.name("nonce"), Window: 1,
			Incarnation: protocol.Incarnation{PodUID: s.pod.uid, BootNonce: s.name},
		}
		s.w.plan(s.w.upTo(2*time.Second), func() { st.toProducer(last) })
		st.endAtProducer(2500 * time.Millisecond)
	}
}
