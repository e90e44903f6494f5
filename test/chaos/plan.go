package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Fault is one fault of a plan.
type Fault struct {
	Kind Kind
	// Target picks whom it hits among those that are there, modulo their number.
	Target int
	// For is how long one stands that lasts, 0 for the others.
	For time.Duration
	// Calm is the time without a fault before it.
	Calm time.Duration
	// Beside is a process that is killed while an outage of the control plane stands.
	Beside *Fault
}

func (f Fault) String() string {
	text := string(f.Kind)
	if f.For > 0 {
		text += fmt.Sprintf(" for %s", f.For.Round(time.Second))
	}
	if f.Beside != nil {
		text += ", and in it: " + f.Beside.String()
	}
	return text
}

// Plan deals faults without end. Each deck has one card of every kind, in an order of its own, so that a long run meets all of them.
type Plan struct {
	random *rand.Rand
	deck   []trait
}

// NewPlan is the plan of a seed. The same seed gives the same faults.
func NewPlan(seed uint64) *Plan { return &Plan{random: rand.New(rand.NewPCG(seed, 2))} }

// besides are the processes that may be killed while the API server or the operator is away.
var besides = []Kind{besideAnOutage, KillSidecar, KillApp, KillProducer}

// Next deals a fault.
func (p *Plan) Next() Fault {
	if len(p.deck) == 0 {
		p.deck = append([]trait{}, traits...)
		p.random.Shuffle(len(p.deck), func(i, j int) { p.deck[i], p.deck[j] = p.deck[j], p.deck[i] })
	}
	card := p.deck[0]
	p.deck = p.deck[1:]
	// Always as many draws, so that no kind changes what comes after it.
	target, length, calm := p.random.IntN(1<<16), p.length(), 2*time.Second+upTo(p.random, 4*time.Second)
	beside, besideTarget := besides[p.random.IntN(len(besides))], p.random.IntN(1<<16)
	f := Fault{Kind: card.kind, Target: target, Calm: calm}
	if card.lasts {
		f.For = length
	}
	if card.control && beside != besideAnOutage {
		f.Beside = &Fault{Kind: beside, Target: besideTarget}
	}
	return f
}

// length draws how long a fault stands: most about as long as the liveness deadline, some far longer.
func (p *Plan) length() time.Duration {
	long := p.random.IntN(3) == 0
	short, more := 5*time.Second+upTo(p.random, 15*time.Second), upTo(p.random, 20*time.Second)
	if long {
		return 20*time.Second + more
	}
	return short
}

func upTo(random *rand.Rand, below time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(below)))
}
