package crash

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Kind is one kind of fault.
type Kind string

// The kinds of faults. Their order is part of what a seed means.
const (
	KillWorkerSidecar   Kind = "SIGKILL of a worker's sidecar"
	KillApp             Kind = "SIGKILL of a worker's app"
	KillWorker          Kind = "SIGKILL of a worker's sidecar and app"
	ReplaceWorker       Kind = "worker pod replaced"
	KillProducer        Kind = "SIGKILL of the producer's sidecar"
	ReplaceProducer     Kind = "producer pod replaced"
	PauseWorkerSidecar  Kind = "SIGSTOP of a worker's sidecar"
	PauseApp            Kind = "SIGSTOP of a worker's app"
	PauseProducer       Kind = "SIGSTOP of the producer's sidecar"
	KillOperator        Kind = "SIGKILL of the operator"
	KillEverything      Kind = "SIGKILL of every sidecar and app at once"
	KillEveryWorkerOnce Kind = "SIGKILL of every worker's sidecar at once"
)

// The kinds of faults where producers share a queue.
const (
	KillActive   Kind = "SIGKILL of the active producer"
	KillStandby  Kind = "SIGKILL of a producer that stands by"
	FenceActive  Kind = "SIGSTOP of the active producer beyond a takeover"
	KillDatabase Kind = "SIGKILL of PostgreSQL"
)

// Weights says how often kinds come, relative to each other.
type Weights []struct {
	Kind   Kind
	Weight int
}

// Fault is one fault of a schedule.
type Fault struct {
	// At is when it comes, after the start of the load.
	At   time.Duration
	Kind Kind
	// Target picks one of the pods that are there, modulo their number.
	Target int
	// For is how long a pause lasts (that of FenceActive after another has taken over) or the database stays down, 0 for the other kinds.
	For time.Duration
}

func (f Fault) String() string {
	text := fmt.Sprintf("%8.3f s  %s", f.At.Seconds(), f.Kind)
	if f.For > 0 {
		text += fmt.Sprintf(" for %s", f.For.Round(time.Millisecond))
	}
	return text
}

// Schedule draws faults for a length of time, every seconds apart on average. The same arguments give the same faults.
func Schedule(seed uint64, length, every time.Duration, weights Weights) []Fault {
	random := rand.New(rand.NewPCG(seed, 1))
	total := 0
	for _, w := range weights {
		total += w.Weight
	}
	var out []Fault
	at := time.Duration(0)
	for {
		at += time.Duration(random.ExpFloat64() * float64(every))
		dice, target, pause := random.IntN(total), random.IntN(1<<16), pauseOf(random)
		if at >= length {
			return out
		}
		f := Fault{At: at, Target: target}
		for _, w := range weights {
			if f.Kind = w.Kind; dice < w.Weight {
				break
			}
			dice -= w.Weight
		}
		if f.lasts() {
			f.For = pause
		}
		out = append(out, f)
	}
}

// pauseOf draws the length of a pause: most below the liveness deadline, some far beyond it.
func pauseOf(random *rand.Rand) time.Duration {
	if random.IntN(3) == 0 {
		return 5*time.Second + time.Duration(random.Int64N(int64(10*time.Second)))
	}
	return 50*time.Millisecond + time.Duration(random.Int64N(int64(4*time.Second)))
}

// lasts says whether other faults come while this one goes on.
func (f Fault) lasts() bool {
	switch f.Kind {
	case PauseWorkerSidecar, PauseApp, PauseProducer, FenceActive, KillDatabase:
		return true
	default:
		return false
	}
}
