package heap

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
)

// The heap grows by so much of what lives, in percent, before it is collected. The least is what Go does by itself; it has a sidecar of a
// few megabytes collect many times a second.
const (
	leastGrowth = 100
	mostGrowth  = 400
)

// Bound tells the garbage collector how much memory container has, unless GOMEMLIMIT says it, and lets the heap grow below that, unless
// GOGC says how. Without the limit the heap may double before it is collected, and a full backlog would be killed for its garbage.
func Bound(log logr.Logger, container memlimit.Provider) {
	limit, err := memlimit.Set(memlimit.WithProvider(container))
	if err != nil {
		log.Error(err, "The memory limit of the container is not known; set GOMEMLIMIT if this process is killed for memory")
		return
	}
	if limit == math.MaxInt64 || os.Getenv("GOGC") != "" {
		return
	}
	log.V(1).Info("Keeping the heap below the memory limit of the container", "bytes", limit)
	debug.SetGCPercent(mostGrowth)
	follow(limit, mostGrowth)
}

// growth has a heap collected before it takes half of the limit, within the bounds. Nearer to the limit the collector looks after itself.
func growth(live, limit int64) int {
	return int(min(max((limit/2-live)*100/max(live, 1), leastGrowth), mostGrowth))
}

// follow adapts the growth, which is last now, after each collection, as long as limit is in force.
func follow(limit int64, last int) {
	collected := new(*byte) // with a pointer in it: what has none may share its memory with what lives on
	runtime.AddCleanup(collected, func(limit int64) {
		if debug.SetMemoryLimit(-1) != limit {
			return
		}
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		next := growth(int64(live[0].Value.Uint64()), limit)
		if next != last {
			debug.SetGCPercent(next)
		}
		follow(limit, next)
	}, limit)
}
