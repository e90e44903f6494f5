package simulation

import (
	"math/rand/v2"
	"strconv"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// Controller is what a simulated producer process hosts; delivery.Controller in earnest, a mutant in tests.
type Controller interface {
	Step(now delivery.Now, event delivery.Event) []delivery.Action
	NextDeadline() (delivery.Now, bool)
	Stats() delivery.Stats
	Snapshot(into *delivery.Stats)
	Holds(ref queue.JobRef) (queue.JobRef, bool)
}

// Consumer is what a simulated worker process hosts.
type Consumer interface {
	Step(now delivery.Now, event delivery.ConsumerEvent) []delivery.ConsumerAction
	NextDeadline() (delivery.Now, bool)
	Status(now delivery.Now) delivery.ConsumerStatus
	Work(now delivery.Now, flow int) delivery.Work
	Draining() bool
}

// Machines makes the machines of a run. Tests replace its parts to prove that the invariants bite.
type Machines struct {
	Controller func(delivery.ControllerConfig, delivery.Random) Controller
	Consumer   func(c delivery.ConsumerConfig, i protocol.Incarnation, r delivery.Random, flows ...string) Consumer
	Queue      func(queueClock) (durable, error)
}

// RealMachines are the machines of runtime/delivery over queue/memory, or over the reference queue, which has the same contract
// in its plainest form: what differs between the two is a bug in one of them.
func RealMachines(reference bool) Machines {
	open := newMemoryQueue
	if reference {
		open = func(now queueClock) (durable, error) { return newStore(now), nil }
	}
	return Machines{
		Controller: func(c delivery.ControllerConfig, r delivery.Random) Controller {
			return delivery.NewController(c, r)
		},
		Consumer: func(c delivery.ConsumerConfig, i protocol.Incarnation, r delivery.Random, flows ...string) Consumer {
			return delivery.NewConsumerGroup(c, i, r, flows...)
		},
		Queue: open,
	}
}

// machineRandom is the randomness of one process. Its ids are short and readable: in a simulation nobody guesses them.
type machineRandom struct {
	owner string
	count int
	rng   *rand.Rand
}

func (r *machineRandom) ID() string {
	r.count++
	return r.owner + "." + strconv.Itoa(r.count)
}

func (r *machineRandom) Float64() float64 { return r.rng.Float64() }
