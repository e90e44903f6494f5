package simulation

import (
	"math"
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// intruder is a pod of the pool with a verified identity of its own that speaks the protocol to do harm: it forges, replays and
// garbles. It never lies about what it was itself given, because a worker's word about its own deliveries is what the protocol
// trusts; it just never answers for them.
type intruder struct {
	w       *flow
	pod     *pod
	stream  *stream
	conns   delivery.ConnID
	binding protocol.BindingRef
	window  int
	held    []protocol.Delivery
	left    bool
}

func (w *world) anyIntruder() *intruder {
	if len(w.intruders) < 2 {
		i := &intruder{w: w.anyFlow(), pod: &pod{w: w, name: w.name("intruder")}}
		i.pod.uid = "uid-" + i.pod.name
		w.intruders = append(w.intruders, i)
	}
	return w.intruders[w.rng.IntN(len(w.intruders))]
}

func (i *intruder) where() *pod { return i.pod }

func (i *intruder) heard(s *stream, m protocol.ToWorker) {
	if s != i.stream {
		return
	}
	switch v := m.(type) {
	case protocol.RegistrationAck:
		if v.BindingID != i.binding.BindingID {
			i.held = nil
		}
		i.binding, i.window = protocol.BindingRef{BindingID: v.BindingID, Secret: v.Secret}, v.Window
	case protocol.SequencedMessage:
		i.held = append(i.held, v.Deliveries...)
	case protocol.BindingEnded:
		i.binding, i.held = protocol.BindingRef{}, nil
	}
}

func (i *intruder) cut(s *stream) {
	if i.stream == s {
		i.stream, i.binding, i.held = nil, protocol.BindingRef{}, nil
	}
}

func (i *intruder) leave() {
	i.left = true
	if i.stream != nil {
		i.stream.endAtProducer(0)
		i.stream = nil
	}
	for _, p := range slices.Clone(i.w.producers) {
		p.receive(func() { p.take(delivery.WorkerGone{PodUID: i.pod.uid, Reason: "pod deleted"}) })
	}
}

// speak sends one harmful message, after connecting if it has to.
func (i *intruder) speak() {
	p := i.w.active()
	if i.left || !p.serves() {
		return
	}
	i.w.count(IntruderSpoke)
	if i.stream == nil {
		i.conns++
		st := &stream{w: i.w, producer: p, peer: i, atPeer: i.conns, atProducer: p.nextConn(), producerKnows: true}
		p.streams[st.atProducer] = st
		i.stream = st
		p.take(delivery.WorkerConnected{Conn: st.atProducer, Worker: i.pod.verified()})
	}
	if i.stream != nil {
		i.stream.toProducer(i.harm(p))
	}
}

func (i *intruder) register() protocol.RegisterConsumer {
	return protocol.RegisterConsumer{
		Version: protocol.Version, Nonce: i.w.name("nonce"), Window: pick(i.w.rng, 1, 2, 10),
		Incarnation: protocol.Incarnation{PodUID: i.pod.uid, BootNonce: i.pod.name},
	}
}

func (i *intruder) harm(p *producer) protocol.FromWorker {
	rng := i.w.rng
	odd := func() int64 {
		return pick(rng, 0, -1, 1, 2, 3, int64(rng.IntN(40)), math.MaxInt64, math.MinInt64, math.MaxInt64-1, 10_001)
	}
	switch rng.IntN(15) {
	case 0, 1:
		return i.register()
	case 2: // somebody else's identity
		r := i.register()
		if victim := i.w.anyPod(); victim != nil {
			r.Incarnation.PodUID = victim.uid
			if victim.sidecar != nil && rng.IntN(2) == 0 {
				r.Incarnation.BootNonce = victim.sidecar.name
			}
		}
		return r
	case 3: // impossible registrations
		r := i.register()
		r.Version = pick(rng, 0, protocol.Version, protocol.Version+1, -1)
		r.Window = pick(rng, 0, -1, protocol.MaxFlowControlWindow+1, math.MaxInt, math.MinInt, 1)
		r.Nonce = pick(rng, "", r.Nonce)
		return r
	case 4: // sane demand of its own: it hoards
		if i.binding.BindingID != "" {
			return protocol.Request{BindingRef: i.binding, RequestUpTo: int64(min(i.window, 3)), ViaTimeout: rng.IntN(2) == 0}
		}
		return i.register()
	case 5: // illegal demand of its own
		return protocol.Request{BindingRef: i.binding, ConfirmedSeq: odd(), RequestUpTo: odd(), StartedSeq: odd(), ViaTimeout: rng.IntN(2) == 0}
	case 6: // wrong words about its own deliveries
		return protocol.Ack{BindingRef: i.binding, StartedSeq: pick(rng, 0, 0, 0, odd()), Settlements: i.wrongSettlements(odd())}
	case 12: // its own deliveries, without the right to speak for them
		ref := i.binding
		ref.Secret = pick(rng, "", "guessed")
		return protocol.Ack{BindingRef: ref, Settlements: i.heldAs(protocol.Confirmed)}
	case 7, 8, 9: // the words of another binding
		return i.forge(p, odd)
	case 10:
		return protocol.Ack{}
	case 13, 14: // what others hold, or what it holds otherwise
		r := i.register()
		r.Claims = i.forgedClaims(p)
		return r
	default:
		return protocol.Heartbeat{BindingRef: i.someRef(p), StartedSeq: odd()}
	}
}

func (i *intruder) heldAs(outcome protocol.Outcome) []protocol.Settlement {
	var all []protocol.Settlement
	for _, d := range i.held {
		all = append(all, protocol.Settlement{WorkerSeq: d.WorkerSeq, MessageID: d.Job.MessageID, Attempt: d.Attempt, Outcome: outcome})
	}
	return all
}

// wrongSettlements name a right sequence with a wrong id, a wrong attempt and a wrong outcome, or nothing that exists.
func (i *intruder) wrongSettlements(seq int64) []protocol.Settlement {
	wrong := protocol.Settlement{WorkerSeq: seq, MessageID: "nobody", Attempt: 1, Outcome: protocol.Confirmed}
	if len(i.held) == 0 {
		return []protocol.Settlement{wrong, wrong}
	}
	d := i.held[i.w.rng.IntN(len(i.held))]
	right := protocol.Settlement{WorkerSeq: d.WorkerSeq, MessageID: d.Job.MessageID, Attempt: d.Attempt, Outcome: protocol.Confirmed}
	if i.w.rng.IntN(4) == 0 {
		right.WorkerSeq += 1000
		return []protocol.Settlement{right, right}
	}
	id, attempt, outcome := right, right, right
	id.MessageID += "x"
	attempt.Attempt++
	outcome.Outcome = pick[protocol.Outcome](i.w.rng, 0, 99, -1)
	return []protocol.Settlement{id, attempt, outcome}
}

// someRef is the binding of another worker with a guessed secret, or an old or invented one.
func (i *intruder) someRef(p *producer) protocol.BindingRef {
	ids := sortedKeys(p.view.bindings)
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == i.binding.BindingID })
	if len(ids) == 0 {
		return protocol.BindingRef{BindingID: "invented", Secret: "guessed"}
	}
	return protocol.BindingRef{BindingID: ids[i.w.rng.IntN(len(ids))], Secret: pick(i.w.rng, "", "guessed", i.binding.Secret)}
}

// forge speaks for another binding: it confirms, asks, drains.
func (i *intruder) forge(p *producer, odd func() int64) protocol.FromWorker {
	ref := i.someRef(p)
	switch i.w.rng.IntN(4) {
	case 0:
		return protocol.Drain{BindingRef: ref}
	case 1:
		return protocol.Request{BindingRef: ref, ConfirmedSeq: odd(), RequestUpTo: odd(), StartedSeq: odd(), ViaTimeout: true}
	}
	var settlements []protocol.Settlement
	if b := p.view.bindings[ref.BindingID]; b != nil {
		for _, seq := range sortedKeys(b.deliveries) {
			if d := b.deliveries[seq]; !d.heard {
				settlements = append(settlements, protocol.Settlement{
					WorkerSeq: seq, MessageID: d.ref.MessageID, Attempt: d.attempt, Outcome: protocol.Confirmed,
				})
			}
		}
	}
	if len(settlements) > 0 {
		i.w.count(ForgedSettlement)
	}
	return protocol.Ack{BindingRef: ref, StartedSeq: pick(i.w.rng, 0, odd()), Settlements: settlements}
}

// garbledToWorker is something that no correct controller says to this worker at this time. What would be a lie of the binding's
// own controller is left out: a worker must trust that one.
func (w *world) garbledToWorker(v *link) protocol.ToWorker {
	rng := w.rng
	seq := pick(rng, 0, -1, math.MinInt64, v.demand+1+int64(rng.IntN(5)), math.MaxInt64)
	d := protocol.Delivery{
		WorkerSeq: seq, StoreSeq: 1, Attempt: 1, Job: protocol.Job{MessageID: "garbage", Payload: []byte("x")},
	}
	switch rng.IntN(8) {
	case 0:
		return protocol.SequencedMessage{BindingID: "no such binding", Deliveries: []protocol.Delivery{d}}
	case 1: // outside the demand
		return protocol.SequencedMessage{BindingID: v.binding, Deliveries: []protocol.Delivery{d}}
	case 2: // an ack of a registration that is not the latest
		return protocol.RegistrationAck{
			Session: "other", Nonce: "no such nonce", BindingID: "stolen", Secret: "stolen", NextSeq: 1, Window: 5, Heartbeat: time.Second,
			Deadline: 5 * time.Second,
		}
	case 3:
		return protocol.BindingEnded{BindingID: "no such binding", Code: protocol.RefusedViolation}
	case 4:
		return protocol.HandBack{BindingID: pick(rng, v.binding, "no such binding"), Count: pick(rng, 0, -1, 1, math.MaxInt)}
	case 5:
		return protocol.SettledAck{BindingID: "no such binding", UpTo: seq, Above: []int64{seq}}
	case 6:
		return protocol.RegistrationRefused{Nonce: "no such nonce", Code: protocol.RefusedIdentity, RetryAfter: time.Hour}
	default:
		return protocol.SequencedMessage{BindingID: v.binding}
	}
}
