package crash

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/workpulling/workpulling/test/prober"
)

// Memory keeps the highest resident memory of each kind of sidecar, minute by minute.
type Memory struct {
	Bed *Bed
	// Producers, Workers and One are peaks by minute, in MiB: of all producers, of all workers, and of the one that is spared.
	Producers, Workers, One []float64
}

// memoryEvery is the time between two samples.
const memoryEvery = 2 * time.Second

// Watch samples until ctx ends.
func (m *Memory) Watch(ctx context.Context) {
	start := time.Now()
	for ctx.Err() == nil {
		minute := int(time.Since(start) / time.Minute)
		for _, p := range m.Bed.Node.podsOf("") {
			pid, _ := p.sidecar.running()
			if pid == 0 {
				continue
			}
			series := []*[]float64{&m.Workers}
			switch {
			case p.app == nil:
				series[0] = &m.Producers
			case p.uid() == m.Bed.Spared:
				series = append(series, &m.One)
			}
			used := residentMiB(pid)
			for _, s := range series {
				for len(*s) <= minute {
					*s = append(*s, 0)
				}
				(*s)[minute] = max((*s)[minute], used)
			}
		}
		prober.Pause(ctx, memoryEvery)
	}
}

// residentMiB is 0 for a process that has ended.
func residentMiB(pid int) float64 {
	status, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer status.Close()
	lines := bufio.NewScanner(status)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 64)
			if err != nil {
				return 0
			}
			return kib / 1024
		}
	}
	return 0
}
