package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
)

// Profile is a kind of world. Probabilities are per event, ranges are inclusive.
type Profile struct {
	Name       string
	Jobs       [2]int
	Workers    [2]int
	Submitters [2]int
	// Flows is how many flows the workers pull from; 0 means one.
	Flows [2]int
	// Storm is how long misfortune lasts; FaultEvery the mean time between two faults of Chaos.
	Storm      time.Duration
	FaultEvery time.Duration
	Chaos      []weighted
	Network    network
	Queue      queueFaults
	Handler    handlerFaults
	// Poison is the share of jobs that kill their worker, Odd of submissions that are invalid, in conflict or repeated.
	Poison, Odd float64
	// Broken is the share of pods of a revision whose every handler fails.
	Broken float64
	// Volatile forgets everything stored when the producer's process ends.
	Volatile bool
	// Overlap is how often a dial reaches another producer than the newest, if there is one (0.3).
	Overlap float64
	// MustProgress keeps a stuck confirm stuck for the whole storm and expects that nothing but its job waits for it.
	MustProgress bool
	// Lateness is the most by which a timer fires after its deadline.
	Lateness time.Duration
	// Drift is how much too fast or slow a process's clock may go, in parts of a million.
	Drift int64
	// Compact is the mean time between two compactions by the host; 0 is never.
	Compact time.Duration
	// unruly lets abandoned writes come after later ones: no queue may do so, and only a test of the invariants does.
	unruly bool
	// tune changes the machines' tunables.
	tune func(*rand.Rand, *tunables)
}

type tunables struct {
	controller delivery.ControllerConfig
	consumer   delivery.ConsumerConfig
	credits    int
}

// network describes every link while the storm lasts.
type network struct {
	drop, repeat, reorder float64
	latency, jitter       time.Duration
}

type queueFaults struct {
	before, after, hang float64
	// slow is how often an operation that is done as quickly as ever is answered seconds later.
	slow    float64
	latency time.Duration
	// late is how long after its caller's patience half of the hanging operations may still take effect.
	late time.Duration
}

type handlerFaults struct {
	nack, reject, delay, unreachable, overrun float64
	mean                                      time.Duration
}

type weighted struct {
	fault  Fault
	weight int
}

var (
	calmNetwork  = network{latency: time.Millisecond, jitter: 2 * time.Millisecond}
	lossyNetwork = network{drop: 0.2, repeat: 0.2, reorder: 0.3, latency: 2 * time.Millisecond, jitter: 60 * time.Millisecond}
	roughNetwork = network{drop: 0.03, repeat: 0.03, reorder: 0.05, latency: time.Millisecond, jitter: 20 * time.Millisecond}
	quickQueue   = queueFaults{latency: 2 * time.Millisecond}
	roughQueue   = queueFaults{before: 0.03, after: 0.03, hang: 0.005, latency: 3 * time.Millisecond}
	goodHandler  = handlerFaults{mean: 200 * time.Millisecond}
	roughHandler = handlerFaults{nack: 0.1, reject: 0.01, delay: 0.05, unreachable: 0.05, overrun: 0.03, mean: 300 * time.Millisecond}
)

var workerChaos = []weighted{
	{SidecarCrashed, 3}, {SidecarCrashedMidStep, 3}, {PodReplaced, 4}, {PodGoneUnnoticed, 1}, {SidecarPaused, 4}, {AppRestarted, 3}, {AppUnready, 3}, {StreamCut, 3},
	{ScaledUp, 1}, {ScaledDown, 1},
}

var producerChaos = []weighted{
	{ProducerCrashed, 3}, {ProducerCrashedMidStep, 5}, {ProducerPaused, 2}, {Takeover, 3}, {SubmitterCrashed, 3}, {StreamCut, 1},
}

var networkChaos = []weighted{{StreamCut, 4}, {StreamHalfOpen, 3}, {PodPartitioned, 3}}

var queueChaos = []weighted{{QueueOutage, 4}, {ConfirmStuck, 2}, {ProducerCrashed, 1}, {SubmitterCrashed, 1}}

var drainChaos = []weighted{
	{Cordoned, 4}, {Uncordoned, 4}, {DrainStarted, 6}, {ScaledUp, 3}, {ScaledDown, 3}, {StreamCut, 1}, {SidecarCrashed, 1},
}

var operatorChaos = []weighted{
	{Reconfigured, 3}, {IntakeClosed, 1}, {Redriven, 3}, {DeadLetterDropped, 2}, {Compacted, 2}, {Resubmitted, 2},
}

var enemyChaos = []weighted{{IntruderSpoke, 6}, {GarbledToWorker, 4}, {SubmitterMisused, 4}, {StreamCut, 1}}

// Profiles are the kinds of worlds, chosen by the seed unless one is asked for.
var Profiles = []Profile{
	{
		Name: "calm", Jobs: [2]int{10, 60}, Workers: [2]int{1, 4}, Submitters: [2]int{1, 2}, Storm: 20 * time.Second,
		FaultEvery: 20 * time.Second, Chaos: operatorChaos, Network: calmNetwork, Queue: quickQueue, Handler: goodHandler, Odd: 0.02,
	},
	{
		Name: "lossy network", Jobs: [2]int{10, 40}, Workers: [2]int{1, 5}, Submitters: [2]int{1, 2}, Storm: 40 * time.Second,
		FaultEvery: 4 * time.Second, Chaos: networkChaos, Network: lossyNetwork, Queue: quickQueue, Handler: goodHandler,
		Lateness: 30 * time.Millisecond,
	},
	{
		Name: "crashing workers", Jobs: [2]int{10, 40}, Workers: [2]int{1, 5}, Submitters: [2]int{1, 1}, Storm: 50 * time.Second,
		FaultEvery: 1500 * time.Millisecond, Chaos: workerChaos, Network: roughNetwork, Queue: quickQueue, Handler: roughHandler,
		Lateness: 10 * time.Millisecond,
	},
	{
		Name: "crashing producer", Jobs: [2]int{10, 40}, Workers: [2]int{1, 4}, Submitters: [2]int{1, 2}, Storm: 50 * time.Second,
		FaultEvery: 2500 * time.Millisecond, Chaos: producerChaos, Network: roughNetwork, Queue: roughQueue, Handler: goodHandler, Odd: 0.05,
	},
	{
		// Two producers at a time, none of them asleep: workers go from one to the other and back.
		Name: "two producers", Jobs: [2]int{20, 60}, Workers: [2]int{1, 4}, Submitters: [2]int{1, 2}, Storm: 50 * time.Second,
		FaultEvery: 700 * time.Millisecond, Network: roughNetwork, Queue: quickQueue, Overlap: 0.5,
		Handler: handlerFaults{nack: 0.02, overrun: 0.05, mean: time.Second},
		Chaos:   []weighted{{Takeover, 2}, {StreamCut, 12}, {SubmitterCrashed, 1}, {SidecarCrashed, 1}, {StreamHalfOpen, 1}},
	},
	{
		Name: "flaky queue", Jobs: [2]int{10, 50}, Workers: [2]int{1, 4}, Submitters: [2]int{1, 2}, Storm: 50 * time.Second,
		FaultEvery: 8 * time.Second, Chaos: queueChaos, Network: calmNetwork, Handler: goodHandler, Odd: 0.05,
		Queue: queueFaults{before: 0.15, after: 0.15, hang: 0.03, slow: 0.03, latency: 10 * time.Millisecond, late: 10 * time.Second},
	},
	{
		// What a shared database does: answers that never come, writes that take effect minutes after their caller has gone, other
		// handles on the same data, and people who decide meanwhile.
		Name: "late commits", Jobs: [2]int{10, 40}, Workers: [2]int{1, 4}, Submitters: [2]int{1, 2}, Storm: 4 * time.Minute,
		FaultEvery: 3 * time.Second, Network: calmNetwork, Odd: 0.05, Drift: 10_000, Compact: 5 * time.Second,
		Handler: handlerFaults{nack: 0.3, reject: 0.1, mean: 500 * time.Millisecond},
		Queue:   queueFaults{before: 0.05, after: 0.1, hang: 0.15, slow: 0.1, latency: 10 * time.Millisecond, late: 3 * time.Minute},
		Chaos: []weighted{
			{Redriven, 8}, {DeadLetterDropped, 3}, {Takeover, 3}, {ProducerCrashed, 2}, {ProducerCrashedMidStep, 2}, {ProducerPaused, 2},
			{SubmitterCrashed, 2}, {Resubmitted, 3}, {Reconfigured, 2}, {SidecarCrashed, 1},
		},
		tune: func(rng *rand.Rand, t *tunables) {
			t.controller.MaxAttempts = pick(rng, 1, 2, 3)
			t.controller.BackoffInitial, t.controller.BackoffMax = 50*time.Millisecond, time.Second
		},
	},
	{
		// Producers that take the queue from each other because its errors hide that they were replaced, while people change their minds.
		Name: "rival writers", Jobs: [2]int{5, 15}, Workers: [2]int{1, 3}, Submitters: [2]int{1, 3}, Storm: 2 * time.Minute,
		FaultEvery: 700 * time.Millisecond, Network: calmNetwork, Overlap: 0.6, Odd: 0.05,
		Handler: handlerFaults{nack: 0.4, reject: 0.1, mean: 100 * time.Millisecond},
		Queue:   queueFaults{before: 0.3, after: 0.1, hang: 0.05, slow: 0.1, latency: 20 * time.Millisecond, late: 20 * time.Second},
		Chaos: []weighted{
			{Redriven, 12}, {DeadLetterDropped, 3}, {Takeover, 4}, {ProducerPaused, 5}, {SubmitterCrashed, 3}, {Resubmitted, 2}, {StreamCut, 3},
		},
		tune: func(rng *rand.Rand, t *tunables) {
			t.controller.MaxAttempts, t.controller.QueueAttempts = pick(rng, 1, 1, 2), 1
			t.controller.BackoffInitial, t.controller.BackoffMax = 50*time.Millisecond, 200*time.Millisecond
		},
	},
	{
		// Workers that pull from two or three flows, whose jobs bear the same ids, with a producer and a queue of their own each.
		Name: "several flows", Jobs: [2]int{8, 30}, Workers: [2]int{1, 4}, Submitters: [2]int{1, 1}, Flows: [2]int{2, 3},
		Storm: 40 * time.Second, FaultEvery: 1500 * time.Millisecond, Network: calmNetwork, Queue: quickQueue, Drift: 10_000,
		Handler: handlerFaults{nack: 0.05, delay: 0.03, unreachable: 0.02, overrun: 0.03, mean: 400 * time.Millisecond},
		Chaos:   mix(workerChaos, producerChaos, operatorChaos),
	},
	{
		// The queue is away for longer than it remembers settled ids, and forgets them as soon as it is back.
		Name: "short memory", Jobs: [2]int{5, 20}, Workers: [2]int{1, 3}, Submitters: [2]int{1, 3}, Storm: 2 * time.Minute,
		FaultEvery: 1500 * time.Millisecond, Network: roughNetwork, Handler: goodHandler, Odd: 0.1, Drift: 10_000, Compact: 500 * time.Millisecond,
		Queue: queueFaults{before: 0.05, after: 0.1, hang: 0.1, slow: 0.05, latency: 10 * time.Millisecond, late: 30 * time.Second},
		Chaos: []weighted{
			{LongOutage, 1}, {Resubmitted, 30}, {SubmitterCrashed, 2}, {ProducerCrashed, 2}, {ProducerCrashedMidStep, 2}, {Takeover, 1},
			{SidecarCrashed, 1}, {StreamCut, 2},
		},
	},
	{
		// Standbys that take over while the old producer sleeps, wakes and speaks on; and clocks that go at different rates.
		Name: "standbys", Jobs: [2]int{20, 60}, Workers: [2]int{2, 4}, Submitters: [2]int{1, 3}, Storm: time.Minute,
		FaultEvery: 1500 * time.Millisecond, Network: roughNetwork, Overlap: 0.4, Drift: 50_000, Lateness: 20 * time.Millisecond,
		Queue:   queueFaults{before: 0.01, after: 0.03, hang: 0.02, latency: 3 * time.Millisecond, late: 20 * time.Second},
		Handler: handlerFaults{nack: 0.05, overrun: 0.05, mean: time.Second},
		Chaos: []weighted{
			{Takeover, 6}, {ProducerPaused, 6}, {StreamCut, 4}, {SidecarPaused, 2}, {SubmitterCrashed, 1}, {ProducerCrashedMidStep, 1},
			{SidecarCrashedMidStep, 1}, {AppRestarted, 1}, {Reconfigured, 2},
		},
	},
	{
		Name: "stuck confirms", Jobs: [2]int{20, 60}, Workers: [2]int{1, 3}, Submitters: [2]int{1, 2}, Storm: 100 * time.Second,
		FaultEvery: 20 * time.Second, Network: calmNetwork, Queue: quickQueue, Handler: goodHandler, MustProgress: true,
		Chaos: []weighted{{ConfirmStuck, 1}},
		tune: func(_ *rand.Rand, t *tunables) {
			t.controller.IsolateConfirmAfter = 5 * time.Second
		},
	},
	{
		Name: "absent app", Jobs: [2]int{5, 30}, Workers: [2]int{1, 3}, Submitters: [2]int{1, 2}, Storm: 60 * time.Second,
		FaultEvery: 5 * time.Second, Network: roughNetwork, Queue: quickQueue, Chaos: operatorChaos,
		Handler: handlerFaults{unreachable: 0.9, nack: 0.05, mean: 100 * time.Millisecond},
		tune: func(rng *rand.Rand, t *tunables) {
			t.controller.MaxAttempts, t.controller.BackoffInitial = 1+rng.IntN(2), 50*time.Millisecond
			t.controller.BackoffMax = time.Second
		},
	},
	{
		Name: "volatile queue", Jobs: [2]int{10, 40}, Workers: [2]int{1, 4}, Submitters: [2]int{1, 2}, Storm: 40 * time.Second,
		FaultEvery: 4 * time.Second, Network: roughNetwork, Queue: quickQueue, Handler: goodHandler, Volatile: true,
		Chaos: []weighted{{ProducerCrashed, 3}, {ProducerCrashedMidStep, 2}, {ProducerPaused, 1}, {SidecarCrashed, 2}, {StreamCut, 2}},
	},
	{
		Name: "strict credit", Jobs: [2]int{10, 40}, Workers: [2]int{1, 4}, Submitters: [2]int{1, 3}, Storm: 40 * time.Second,
		FaultEvery: 3 * time.Second, Network: roughNetwork, Queue: quickQueue, Handler: roughHandler,
		Chaos: mix(workerChaos, producerChaos),
		tune: func(rng *rand.Rand, t *tunables) {
			t.controller.BacklogJobs, t.controller.BacklogBytes = 0, 0
			t.credits = 1 + rng.IntN(3)
			t.consumer.Window = 1 + rng.IntN(4)
		},
	},
	{
		Name: "big window", Jobs: [2]int{100, 250}, Workers: [2]int{1, 3}, Submitters: [2]int{1, 2}, Storm: 20 * time.Second,
		FaultEvery: 4 * time.Second, Network: roughNetwork, Queue: roughQueue, Chaos: mix(workerChaos, networkChaos, producerChaos),
		Handler: handlerFaults{nack: 0.02, delay: 0.02, mean: 40 * time.Millisecond},
		tune: func(rng *rand.Rand, t *tunables) {
			t.consumer.Window, t.consumer.Concurrency = 100+rng.IntN(900), 1+rng.IntN(20)
			t.credits = 100
		},
	},
	{
		Name: "concurrency", Jobs: [2]int{20, 80}, Workers: [2]int{1, 3}, Submitters: [2]int{1, 2}, Storm: 40 * time.Second,
		FaultEvery: 3 * time.Second, Network: roughNetwork, Queue: quickQueue, Chaos: mix(workerChaos, networkChaos),
		Handler: handlerFaults{nack: 0.1, reject: 0.02, delay: 0.05, unreachable: 0.02, overrun: 0.05, mean: 500 * time.Millisecond},
		tune: func(rng *rand.Rand, t *tunables) {
			t.consumer.Concurrency = 2 + rng.IntN(10)
			t.consumer.HandlerTimeout = 3 * time.Second
		},
	},
	{
		Name: "poison", Jobs: [2]int{10, 30}, Workers: [2]int{2, 5}, Submitters: [2]int{1, 1}, Storm: 60 * time.Second,
		FaultEvery: 6 * time.Second, Network: roughNetwork, Queue: quickQueue, Chaos: mix(operatorChaos, workerChaos), Poison: 0.15,
		Handler: roughHandler,
		tune: func(rng *rand.Rand, t *tunables) {
			t.controller.MaxAttempts = 1 + rng.IntN(4)
		},
	},
	{
		Name: "broken revision", Jobs: [2]int{20, 80}, Workers: [2]int{1, 5}, Submitters: [2]int{1, 2}, Storm: 60 * time.Second,
		FaultEvery: 5 * time.Second, Network: roughNetwork, Queue: quickQueue, Chaos: mix(workerChaos, operatorChaos, networkChaos), Broken: 0.6,
		Handler: handlerFaults{nack: 0.05, mean: 100 * time.Millisecond},
	},
	{
		Name: "drain storm", Jobs: [2]int{20, 60}, Workers: [2]int{2, 6}, Submitters: [2]int{1, 2}, Storm: 40 * time.Second,
		FaultEvery: 800 * time.Millisecond, Network: roughNetwork, Queue: quickQueue, Chaos: drainChaos,
		Handler: handlerFaults{nack: 0.05, unreachable: 0.05, mean: 800 * time.Millisecond},
	},
	{
		Name: "enemies", Jobs: [2]int{10, 40}, Workers: [2]int{1, 4}, Submitters: [2]int{1, 3}, Storm: 40 * time.Second,
		FaultEvery: 150 * time.Millisecond, Network: roughNetwork, Queue: quickQueue, Chaos: enemyChaos, Handler: roughHandler, Odd: 0.2,
	},
	{
		Name: "everything", Jobs: [2]int{10, 80}, Workers: [2]int{1, 6}, Submitters: [2]int{1, 3}, Storm: 60 * time.Second,
		FaultEvery: time.Second, Network: network{drop: 0.08, repeat: 0.08, reorder: 0.1, latency: time.Millisecond, jitter: 40 * time.Millisecond},
		Queue:   queueFaults{before: 0.05, after: 0.05, hang: 0.01, slow: 0.02, latency: 5 * time.Millisecond},
		Handler: roughHandler, Poison: 0.03, Odd: 0.1, Lateness: 50 * time.Millisecond, Drift: 20_000, Compact: 10 * time.Second, Flows: [2]int{1, 3},
		Chaos: mix(workerChaos, producerChaos, networkChaos, queueChaos, drainChaos, operatorChaos, enemyChaos),
	},
}

func mix(lists ...[]weighted) []weighted {
	var all []weighted
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// ProfileNamed finds a profile.
func ProfileNamed(name string) (Profile, bool) {
	for _, p := range Profiles {
		if p.Name == name {
			return p, true
		}
	}
	return Profile{}, false
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func between(rng *rand.Rand, r [2]int) int { return r[0] + rng.IntN(r[1]-r[0]+1) }

// draw chooses the tunables of one world.
func (p Profile) draw(rng *rand.Rand) tunables {
	t := tunables{controller: delivery.DefaultControllerConfig(), consumer: delivery.DefaultConsumerConfig()}
	c := &t.controller
	c.DeliveryConfirmation = rng.IntN(2) == 0
	c.BacklogJobs = pick(rng, 1, 3, 20, 1000)
	c.BacklogBytes = pick(rng, int64(200), 2000, 1<<20)
	c.MaxPayloadBytes = maxPayload
	c.MemoryBytes = pick(rng, int64(1), 100, 1000, 1<<20)
	c.MaxAttempts = pick(rng, 0, 2, 3, 5, 20)
	c.BackoffInitial = pick(rng, 50*time.Millisecond, time.Second)
	c.BackoffMax = pick(rng, time.Second, 10*time.Second)
	c.MaxWindow = pick(rng, 1, 4, 10_000, 10_000)
	c.QueueAttempts = pick(rng, 1, 3)
	c.IsolateConfirmAfter = pick(rng, 5*time.Second, time.Minute)
	c.MaxBatch = pick(rng, 1, 5, 1024)
	c.MaxFrameBytes = pick(rng, 1, 300, 1<<20)
	c.Heartbeat = pick(rng, 500*time.Millisecond, 2*time.Second, 2*time.Second)
	c.Deadline = c.Heartbeat * time.Duration(pick(rng, 4, 5))
	t.consumer.Window = pick(rng, 1, 2, 5, 20, 50)
	t.consumer.Concurrency = pick(rng, 1, 1, 1, 2, 4)
	t.consumer.HandlerTimeout = pick(rng, 0, 2*time.Second, 10*time.Second, 5*time.Minute)
	t.credits = pick(rng, 1, 1, 2, 10, 100)
	c.Dispatch = pick(rng, delivery.RoundRobin, delivery.LeastOutstanding)
	if p.tune != nil {
		p.tune(rng, &t)
	}
	return t
}

// maxPayload is the flow's payload limit in every world; submitters go beyond it on purpose.
const maxPayload = 64
