package pool

import (
	"fmt"
	"slices"
	"strings"

	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// failing says that every job of a flow fails with the newest revision of the pool, as the flow's producer reports. Empty where none does.
func (o *observation) failing() string {
	for _, s := range o.sources {
		if !s.stats.Connected {
			continue
		}
		for _, p := range s.stats.Stats.GetPausedRevisions() {
			if p.Pool == o.pool.Name && p.Revision == o.snapshot.Revision {
				return fmt.Sprintf("every job of flow %q fails with revision %s, so it gets one at a time, to try: %s", s.name, p.Revision, p.Reason)
			}
		}
	}
	return ""
}

// flapping names the workers that are kept away from jobs because their processes die again and again.
func (o *observation) flapping() string {
	var names []string
	for _, s := range o.sources {
		if !s.stats.Connected {
			continue
		}
		for _, w := range s.stats.Stats.GetQuarantinedWorkers() {
			if w.Flapping && o.isLive(w) && !slices.Contains(names, w.PodName) {
				names = append(names, w.PodName)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	const most = 5
	return fmt.Sprintf("%d workers are kept away from jobs, because their processes die again and again: %s",
		len(names), strings.Join(names[:min(most, len(names))], ", "))
}

func (o *observation) isLive(quarantined *protocolv1.QuarantinedWorker) bool {
	return slices.ContainsFunc(o.snapshot.Workers, func(w Worker) bool { return w.UID == quarantined.PodUid && w.live() })
}
