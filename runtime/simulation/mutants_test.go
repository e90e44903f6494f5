package simulation

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// A simulator that cannot fail proves nothing. Each mutant breaks one promise of a machine or of the queue; the simulator must
// catch it, by one of the invariants named, within a number of seeds.

// mutantController changes what a Controller hears and says.
type mutantController struct {
	Controller
	hear func(delivery.Event) delivery.Event
	say  func(event delivery.Event, actions []delivery.Action) []delivery.Action
}

func (m *mutantController) Step(now delivery.Now, e delivery.Event) []delivery.Action {
	if m.hear != nil {
		e = m.hear(e)
	}
	actions := slices.Clone(m.Controller.Step(now, e))
	if m.say != nil {
		actions = m.say(e, actions)
	}
	return actions
}

// mutantConsumer changes what a Consumer hears and says.
type mutantConsumer struct {
	Consumer
	hear func(delivery.ConsumerEvent) delivery.ConsumerEvent
	say  func(event delivery.ConsumerEvent, actions []delivery.ConsumerAction) []delivery.ConsumerAction
}

func (m *mutantConsumer) Step(now delivery.Now, e delivery.ConsumerEvent) []delivery.ConsumerAction {
	if m.hear != nil {
		e = m.hear(e)
	}
	actions := slices.Clone(m.Consumer.Step(now, e))
	if m.say != nil {
		actions = m.say(e, actions)
	}
	return actions
}

type mutantQueue struct {
	durable
	mutateLoad  func(queue.State, queue.Epoch, []queue.Row) (queue.State, queue.Epoch, []queue.Row)
	mutateApply func(inner durable, epoch queue.Epoch, b queue.Batch) (queue.Result, error)
}

func (m *mutantQueue) load() (queue.State, queue.Epoch, []queue.Row, error) {
	state, epoch, rows, err := m.durable.load()
	if m.mutateLoad != nil {
		state, epoch, rows = m.mutateLoad(state, epoch, rows)
	}
	return state, epoch, rows, err
}

func (m *mutantQueue) apply(epoch queue.Epoch, b queue.Batch) (queue.Result, error) {
	if m.mutateApply != nil {
		return m.mutateApply(m.durable, epoch, b)
	}
	return m.durable.apply(epoch, b)
}

// busyController always wants a tick at once.
type busyController struct{ Controller }

func (busyController) NextDeadline() (delivery.Now, bool) { return 0, true }

func withController(wrap func(Controller) Controller) Machines {
	m := RealMachines(true)
	m.Controller = func(c delivery.ControllerConfig, r delivery.Random) Controller {
		return wrap(delivery.NewController(c, r))
	}
	return m
}

func withConsumer(wrap func(Consumer) Consumer) Machines {
	m := RealMachines(true)
	m.Consumer = func(c delivery.ConsumerConfig, i protocol.Incarnation, r delivery.Random, flows ...string) Consumer {
		return wrap(delivery.NewConsumerGroup(c, i, r, flows...))
	}
	return m
}

func withQueue(wrap func(*store) durable) Machines {
	m := RealMachines(true)
	m.Queue = func(now queueClock) (durable, error) { return wrap(newStore(now)), nil }
	return m
}

// eachToWorker rewrites the messages to workers.
func eachToWorker(change func(protocol.ToWorker) protocol.ToWorker) func(delivery.Event, []delivery.Action) []delivery.Action {
	return func(_ delivery.Event, actions []delivery.Action) []delivery.Action {
		for i, a := range actions {
			if m, ok := a.(delivery.ToWorker); ok {
				m.Message = change(m.Message)
				actions[i] = m
			}
		}
		return actions
	}
}

func eachToProducer(change func(protocol.ToProducer) protocol.ToProducer) func(delivery.Event, []delivery.Action) []delivery.Action {
	return func(_ delivery.Event, actions []delivery.Action) []delivery.Action {
		for i, a := range actions {
			if m, ok := a.(delivery.ToProducer); ok {
				m.Message = change(m.Message)
				actions[i] = m
			}
		}
		return actions
	}
}

// eachFromWorker rewrites what workers say before the Controller hears it.
func eachFromWorker(change func(protocol.FromWorker) protocol.FromWorker) func(delivery.Event) delivery.Event {
	return func(e delivery.Event) delivery.Event {
		if m, ok := e.(delivery.WorkerMessage); ok {
			m.Message = change(m.Message)
			return m
		}
		return e
	}
}

func eachToController(change func(protocol.FromWorker) protocol.FromWorker) func(delivery.ConsumerEvent, []delivery.ConsumerAction) []delivery.ConsumerAction {
	return func(_ delivery.ConsumerEvent, actions []delivery.ConsumerAction) []delivery.ConsumerAction {
		for i, a := range actions {
			if m, ok := a.(delivery.ToController); ok {
				m.Message = change(m.Message)
				actions[i] = m
			}
		}
		return actions
	}
}

// settlements rewrites the settlements of an Ack in a copy.
func settlements(m protocol.FromWorker, change func(*protocol.Settlement)) protocol.FromWorker {
	ack, ok := m.(protocol.Ack)
	if !ok {
		return m
	}
	ack.Settlements = slices.Clone(ack.Settlements)
	for i := range ack.Settlements {
		change(&ack.Settlements[i])
	}
	return ack
}

var mutants = []struct {
	name     string
	profile  string
	machines func() Machines
	caught   []string
}{
	{"the queue loses a confirm", "crashing producer", queueLosesConfirms, []string{"I-1"}},
	{"the queue loses a store", "calm", queueLosesStores, []string{"I-1", "I-6", "I-7", "I-8", "I-11"}},
	{"the queue does not fence", "crashing producer", queueDoesNotFence, []string{"I-5", "I-11"}},
	{"the queue starts its sequence anew when it is empty", "crashing producer", queueReusesSequences, []string{"I-6"}},
	{"the queue repeats an epoch", "crashing producer", queueRepeatsEpoch, []string{"I-5"}},
	{"the controller forgets a loaded row", "crashing producer", controllerForgetsRow, []string{"I-1"}},
	{"the controller dispatches twice", "calm", controllerDispatchesTwice, []string{"I-2", "I-3", "I-4"}},
	{"the controller skips a worker sequence", "calm", controllerSkipsSequence, []string{"I-3"}},
	{"the controller ignores the demand", "calm", controllerIgnoresDemand, []string{"I-3", "I-4"}},
	{"the controller changes a payload", "calm", controllerChangesPayload, []string{"I-7"}},
	{"the controller takes any secret", "enemies", controllerTakesAnySecret, []string{"I-8", "I-10"}},
	{"the controller takes a nack for a confirm", "crashing workers", controllerConfirmsNacks, []string{"I-8"}},
	{"the controller says stored too early", "calm", controllerStoresEarly, []string{"I-8"}},
	{"the controller says confirmed too early", "calm", controllerConfirmsEarly, []string{"I-8"}},
	{"the controller takes over what never came", "calm", controllerTakesOverTooMuch, []string{"I-8"}},
	{"the controller grants too much", "strict credit", controllerOvergrants, []string{"credit"}},
	{"the controller gives up too early", "crashing workers", controllerGivesUpEarly, []string{"I-10"}},
	{"the controller fails twice", "crashing producer", controllerFailsTwice, []string{"I-11"}},
	{"the controller never hears a settlement", "calm", controllerHearsNoSettlement, []string{"I-10"}},
	{"the controller never notices a lost worker", "crashing workers", controllerNeverExpires, []string{"I-3", "I-10", "heartbeat"}},
	{"the controller spins", "calm", func() Machines {
		return withController(func(c Controller) Controller { return busyController{c} })
	}, []string{"I-10"}},
	{"the consumer starts a handler twice", "calm", consumerStartsTwice, []string{"I-9"}},
	{"the consumer confirms a failure", "crashing workers", consumerConfirmsFailures, []string{"I-8"}},
	{"the consumer changes its mind", "lossy network", consumerChangesItsMind, []string{"I-8"}},
	{"the consumer asks for more than its window", "calm", consumerAsksForMore, []string{"I-4"}},
	{"the consumer demands one more than it was granted", "calm", consumerDemandsMore, []string{"I-4"}},
	{"the consumer takes any binding", "enemies", consumerTakesAnyBinding, []string{"I-7", "I-8", "I-9", "I-12"}},
	{"the consumer says drained too early", "drain storm", consumerDrainsEarly, []string{"drain"}},
	{"the consumer never confirms", "calm", consumerNeverConfirms, []string{"I-10"}},
	{"the consumer panics", "calm", consumerPanics, []string{"panic"}},
}

// enoughForMutants is within how many seeds each mutant must be caught.
const enoughForMutants = 40

func TestMutantsAreCaught(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			profile, ok := ProfileNamed(m.profile)
			if !ok {
				t.Fatalf("no profile %q", m.profile)
			}
			for seed := range uint64(enoughForMutants) {
				r := Run(seed+1, Options{Profile: &profile, Machines: m.machines()})
				if r.Violation == nil {
					continue
				}
				if !slices.Contains(m.caught, r.Violation.Invariant) {
					t.Fatalf("seed %d: caught by %v, expected one of %v", seed+1, r.Violation, m.caught)
				}
				t.Logf("seed %d: %v", seed+1, r.Violation)
				return
			}
			t.Fatalf("survived %d seeds", enoughForMutants)
		})
	}
}

func queueLosesConfirms() Machines {
	return withQueue(func(s *store) durable {
		return &mutantQueue{durable: s, mutateApply: func(inner durable, epoch queue.Epoch, b queue.Batch) (queue.Result, error) {
			b.Confirms = nil
			return inner.apply(epoch, b)
		}}
	})
}

func queueLosesStores() Machines {
	return withQueue(func(s *store) durable {
		return &mutantQueue{durable: s, mutateApply: func(inner durable, epoch queue.Epoch, b queue.Batch) (queue.Result, error) {
			r, err := inner.apply(epoch, b)
			for _, request := range b.Stores {
				if j := s.byID[request.Job.MessageID]; j != nil && j.ref.StoreSeq%5 == 0 {
					delete(s.byID, request.Job.MessageID)
					delete(s.bySeq, j.ref.StoreSeq)
				}
			}
			return r, err
		}}
	})
}

func queueDoesNotFence() Machines {
	return withQueue(func(s *store) durable {
		return &mutantQueue{durable: s, mutateApply: func(inner durable, epoch queue.Epoch, b queue.Batch) (queue.Result, error) {
			return inner.apply(s.epoch, b)
		}}
	})
}

func queueReusesSequences() Machines {
	return withQueue(func(s *store) durable {
		return &mutantQueue{durable: s, mutateLoad: func(state queue.State, e queue.Epoch, rows []queue.Row) (queue.State, queue.Epoch, []queue.Row) {
			if len(rows) == 0 {
				s.cursor, state.Cursor = 0, 0
			}
			return state, e, rows
		}}
	})
}

func queueRepeatsEpoch() Machines {
	return withQueue(func(s *store) durable {
		return &mutantQueue{durable: s, mutateLoad: func(state queue.State, _ queue.Epoch, rows []queue.Row) (queue.State, queue.Epoch, []queue.Row) {
			s.epoch = 1
			return state, 1, rows
		}}
	})
}

func controllerForgetsRow() Machines {
	return withController(func(c Controller) Controller {
		return &mutantController{Controller: c, hear: func(e delivery.Event) delivery.Event {
			if l, ok := e.(delivery.Loaded); ok && len(l.Rows) > 0 {
				l.Rows = l.Rows[1:]
				return l
			}
			return e
		}}
	})
}

func controllerDispatchesTwice() Machines {
	return withController(func(c Controller) Controller {
		return &mutantController{Controller: c, say: eachToWorker(func(m protocol.ToWorker) protocol.ToWorker {
			if s, ok := m.(protocol.SequencedMessage); ok && len(s.Deliveries) > 0 {
				again := s.Deliveries[len(s.Deliveries)-1]
				again.WorkerSeq++
				again.Redelivered = true
				s.Deliveries = append(slices.Clone(s.Deliveries), again)
				return s
			}
			return m
		})}
	})
}

func controllerSkipsSequence() Machines {
	return withController(func(c Controller) Controller {
		return &mutantController{Controller: c, say: eachToWorker(func(m protocol.ToWorker) protocol.ToWorker {
			if s, ok := m.(protocol.SequencedMessage); ok {
				s.Deliveries = slices.Clone(s.Deliveries)
				for i := range s.Deliveries {
					if s.Deliveries[i].WorkerSeq >= 3 {
						s.Deliveries[i].WorkerSeq++
					}
				}
				return s
			}
			return m
		})}
	})
}

func controllerIgnoresDemand() Machines {
	return withController(func(c Controller) Controller {
		return &mutantController{Controller: c, hear: eachFromWorker(func(m protocol.FromWorker) protocol.FromWorker {
			if r, ok := m.(protocol.Request); ok {
				r.RequestUpTo += 3
				return r
			}
			return m
		})}
	})
}

func controllerChangesPayload() Machines {
	return withController(func(c Controller) Controller {
		return &mutantController{Controller: c, say: eachToWorker(func(m protocol.ToWorker) protocol.ToWorker {
			if s, ok := m.(protocol.SequencedMessage); ok {
				s.Deliveries = slices.Clone(s.Deliveries)
				for i := range s.Deliveries {
					s.Deliveries[i].Job.Payload = bytes.ToUpper(s.Deliveries[i].Job.Payload)
				}
				return s
			}
			return m
		})}
	})
}

func controllerTakesAnySecret() Machines {
	return withController(func(c Controller) Controller {
		secrets := map[string]string{}
		fix := func(ref *protocol.BindingRef) {
			if s := secrets[ref.BindingID]; s != "" {
				ref.Secret = s
			}
		}
		streams := map[string]delivery.ConnID{}
		return &mutantController{Controller: c,
			hear: func(e delivery.Event) delivery.Event {
				m, ok := e.(delivery.WorkerMessage)
				if !ok {
					return e
				}
				if ack, ok := m.Message.(protocol.Ack); ok {
					fix(&ack.BindingRef)
					m.Message = ack
					if conn := streams[ack.BindingID]; conn != 0 {
						m.Conn = conn
					}
				}
				return m
			},
			say: func(_ delivery.Event, actions []delivery.Action) []delivery.Action {
				for _, a := range actions {
					if w, ok := a.(delivery.ToWorker); ok {
						if ack, ok := w.Message.(protocol.RegistrationAck); ok {
							secrets[ack.BindingID], streams[ack.BindingID] = ack.Secret, w.Conn
						}
					}
				}
				return actions
			},
		}
	})
}

func controllerConfirmsNacks() Machines {
	return withController(func(c Controller) Controller {
		return &mutantController{Controller: c, hear: eachFromWorker(func(m protocol.FromWorker) protocol.FromWorker {
			return settlements(m, func(s *protocol.Settlement) {
				if s.Outcome == protocol.Nacked {
					s.Outcome = protocol.Confirmed
				}
			})
		})}
	})
}

func controllerStoresEarly() Machines {
	return withController(func(c Controller) Controller {
		next := int64(0)
		return &mutantController{Controller: c, say: func(e delivery.Event, actions []delivery.Action) []delivery.Action {
			m, ok := e.(delivery.ProducerMessage)
			if !ok {
				return actions
			}
			if p, ok := m.Message.(protocol.Produced); ok {
				next++
				actions = append(actions, delivery.ToProducer{Conn: m.Conn, Message: protocol.Stored{
					Session: p.Session, Token: p.Token, MessageID: p.Job.MessageID, StoreSeq: next, Verdict: protocol.StoredNew,
				}})
			}
			return actions
		}}
	})
}

func controllerConfirmsEarly() Machines {
	return withController(func(c Controller) Controller {
		return &mutantController{Controller: c, say: func(_ delivery.Event, actions []delivery.Action) []delivery.Action {
			for _, a := range actions {
				if b, ok := a.(delivery.ApplyBatch); ok {
					for _, ref := range b.Batch.Confirms {
						actions = append(actions, delivery.JobSettled{Ref: ref})
					}
				}
			}
			return actions
		}}
	})
}

func controllerTakesOverTooMuch() Machines {
	return withController(func(c Controller) Controller {
		return &mutantController{Controller: c, say: eachToWorker(func(m protocol.ToWorker) protocol.ToWorker {
			if s, ok := m.(protocol.SettledAck); ok {
				s.UpTo++
				return s
			}
			return m
		})}
	})
}

func controllerOvergrants() Machines {
	return withController(func(c Controller) Controller {
		return &mutantController{Controller: c, say: eachToProducer(func(m protocol.ToProducer) protocol.ToProducer {
			if r, ok := m.(protocol.RequestNext); ok {
				r.UpTo += 5
				return r
			}
			return m
		})}
	})
}

func controllerGivesUpEarly() Machines {
	m := RealMachines(true)
	m.Controller = func(c delivery.ControllerConfig, r delivery.Random) Controller {
		if c.MaxAttempts != 1 {
			c.MaxAttempts = 1
		}
		return delivery.NewController(c, r)
	}
	return m
}

func controllerFailsTwice() Machines {
	return withController(func(c Controller) Controller {
		return &mutantController{Controller: c, say: func(_ delivery.Event, actions []delivery.Action) []delivery.Action {
			for _, a := range actions {
				if f, ok := a.(delivery.Failed); ok {
					return append(actions, f)
				}
			}
			return actions
		}}
	})
}

func controllerHearsNoSettlement() Machines {
	return withController(func(c Controller) Controller {
		return &mutantController{Controller: c, hear: eachFromWorker(func(m protocol.FromWorker) protocol.FromWorker {
			if ack, ok := m.(protocol.Ack); ok {
				ack.Settlements = nil
				return ack
			}
			return m
		})}
	})
}

func controllerNeverExpires() Machines {
	m := RealMachines(true)
	m.Controller = func(c delivery.ControllerConfig, r delivery.Random) Controller {
		c.Deadline = 24 * time.Hour
		return &mutantController{Controller: delivery.NewController(c, r), hear: func(e delivery.Event) delivery.Event {
			switch e := e.(type) {
			case delivery.WorkerGone, delivery.WorkerDisconnected:
				return delivery.Tick{}
			case delivery.Reconfigure:
				e.Config.Deadline = 24 * time.Hour
				return e
			default:
				return e
			}
		}}
	}
	return m
}

func consumerStartsTwice() Machines {
	return withConsumer(func(c Consumer) Consumer {
		return &mutantConsumer{Consumer: c, say: func(_ delivery.ConsumerEvent, actions []delivery.ConsumerAction) []delivery.ConsumerAction {
			for _, a := range actions {
				if s, ok := a.(delivery.StartHandler); ok {
					s.Run += 1_000_000
					actions = append(actions, s)
				}
			}
			return actions
		}}
	})
}

func consumerConfirmsFailures() Machines {
	return withConsumer(func(c Consumer) Consumer {
		return &mutantConsumer{Consumer: c, hear: func(e delivery.ConsumerEvent) delivery.ConsumerEvent {
			if d, ok := e.(delivery.HandlerDone); ok {
				d.Outcome = protocol.Confirmed
				return d
			}
			return e
		}}
	})
}

func consumerChangesItsMind() Machines {
	return withConsumer(func(c Consumer) Consumer {
		said := map[int64]bool{}
		return &mutantConsumer{Consumer: c, say: eachToController(func(m protocol.FromWorker) protocol.FromWorker {
			return settlements(m, func(s *protocol.Settlement) {
				if said[s.WorkerSeq] {
					s.Outcome = protocol.Nacked
				}
				said[s.WorkerSeq] = true
			})
		})}
	})
}

func consumerAsksForMore() Machines {
	return withConsumer(func(c Consumer) Consumer {
		return &mutantConsumer{Consumer: c, say: eachToController(func(m protocol.FromWorker) protocol.FromWorker {
			if r, ok := m.(protocol.RegisterConsumer); ok {
				r.Window++
				return r
			}
			return m
		})}
	})
}

func consumerDemandsMore() Machines {
	return withConsumer(func(c Consumer) Consumer {
		return &mutantConsumer{Consumer: c, say: eachToController(func(m protocol.FromWorker) protocol.FromWorker {
			if r, ok := m.(protocol.Request); ok {
				r.RequestUpTo++
				return r
			}
			return m
		})}
	})
}

func consumerTakesAnyBinding() Machines {
	return withConsumer(func(c Consumer) Consumer {
		own, next := "", int64(1)
		return &mutantConsumer{Consumer: c, hear: func(e delivery.ConsumerEvent) delivery.ConsumerEvent {
			m, ok := e.(delivery.FromController)
			if !ok {
				return e
			}
			switch v := m.Message.(type) {
			case protocol.RegistrationAck:
				if v.BindingID != "stolen" {
					own, next = v.BindingID, v.NextSeq
				}
			case protocol.SequencedMessage:
				if v.BindingID == own {
					for _, d := range v.Deliveries {
						next = max(next, d.WorkerSeq+1)
					}
					break
				}
				v.BindingID, v.Deliveries = own, slices.Clone(v.Deliveries)
				for i := range v.Deliveries {
					v.Deliveries[i].WorkerSeq = next + int64(i)
				}
				m.Message = v
			}
			return m
		}}
	})
}

func consumerDrainsEarly() Machines {
	return withConsumer(func(c Consumer) Consumer {
		return &mutantConsumer{Consumer: c, say: func(e delivery.ConsumerEvent, actions []delivery.ConsumerAction) []delivery.ConsumerAction {
			if cordon, ok := e.(delivery.Cordon); ok && cordon.Force {
				actions = append(actions, delivery.Drained{})
			}
			return actions
		}}
	})
}

func consumerNeverConfirms() Machines {
	return withConsumer(func(c Consumer) Consumer {
		return &mutantConsumer{Consumer: c, say: eachToController(func(m protocol.FromWorker) protocol.FromWorker {
			if ack, ok := m.(protocol.Ack); ok {
				ack.Settlements = nil
				return ack
			}
			return m
		})}
	})
}

func consumerPanics() Machines {
	return withConsumer(func(c Consumer) Consumer {
		return &mutantConsumer{Consumer: c, hear: func(e delivery.ConsumerEvent) delivery.ConsumerEvent {
			if _, ok := e.(delivery.HandlerDone); ok {
				panic("the machine is broken")
			}
			return e
		}}
	})
}

// Without the rule of queue.WorkQueue, that an abandoned write takes effect before anything else does or never, a write that timed out
// undoes what a person decided since; the invariants see it.
func TestAbandonedWritesMustNotComeLate(t *testing.T) {
	profile, ok := ProfileNamed("late commits")
	if !ok {
		t.Fatal("no such profile")
	}
	profile.unruly = true
	profile.Queue.hang, profile.FaultEvery, profile.Chaos = 0.3, 300*time.Millisecond, []weighted{{Redriven, 1}}
	for seed := range uint64(400) {
		r := Run(seed+1, Options{Profile: &profile})
		if r.Violation != nil && strings.Contains(r.Violation.Detail, "became a dead letter") {
			t.Logf("seed %d: %v", seed+1, r.Violation)
			return
		}
	}
	t.Error("nothing goes wrong without the rule")
}
