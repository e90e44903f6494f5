package delivery

import (
	"cmp"
	"slices"
	"time"
)

// A pod that misbehaves is kept away for a while that doubles each time: one that breaks the protocol, and one whose processes die
// again and again, so that jobs do not starve at its hands (B-174, B-204). Its registrations are refused meanwhile, and say until when.

const (
	// cooling is the pause after a first violation; it doubles up to coolingMax, and a good period forgives.
	cooling       = time.Second
	coolingMax    = 5 * time.Minute
	coolingForget = 10 * time.Minute
	// flappingDeaths are forgiven, each within flappingWindow of the one before or of the end of a quarantine.
	flappingDeaths = 4
	flappingWindow = time.Minute
)

// Causes of a quarantine.
const (
	coolingViolation = "the worker broke the protocol"
	coolingFlapping  = "the worker is flapping: it died too often"
)

// cool keeps the pod away.
func (c *Controller) cool(now Now, p *pod, step int, why string) time.Duration {
	wait := min(cooling<<min(step, 20), coolingMax)
	if now+wait > p.coolUntil {
		p.coolUntil, p.cooling = now+wait, why
	}
	if p.cooled == nil {
		p.cooled = newTimer(func(Now) { delete(c.quarantine, p.uid) })
	}
	c.quarantine[p.uid] = p
	c.timers.set(p.cooled, p.coolUntil)
	return wait
}

// readmit ends the quarantine of a pod, for it is over itself.
func (c *Controller) readmit(p *pod) {
	if p.cooled != nil {
		c.timers.stop(p.cooled)
	}
	delete(c.quarantine, p.uid)
}

// violated counts a violation and returns how long the pod has to wait.
func (c *Controller) violated(now Now, p *pod) time.Duration {
	if now-p.violationAt > coolingForget {
		p.violations = 0
	}
	p.violations++
	p.violationAt = now
	return c.cool(now, p, p.violations-1, coolingViolation)
}

// died counts a process of the pod that ended, or was silent for a deadline with jobs at its hands.
func (c *Controller) died(now Now, p *pod) {
	if now-max(p.deathAt, p.coolUntil) > flappingWindow {
		p.deaths = 0
	}
	p.deaths++
	p.deathAt, p.mourned = now, p.boot
	if p.deaths > flappingDeaths {
		c.cool(now, p, p.deaths-flappingDeaths, coolingFlapping)
	}
}

// QuarantineStats describes a pod that is kept away.
type QuarantineStats struct {
	Worker Worker
	// Flapping: it died too often. Else it broke the protocol.
	Flapping bool
	// Until is when it may come back.
	Until Now
}

func (c *Controller) quarantined() []QuarantineStats {
	stats := make([]QuarantineStats, 0, len(c.quarantine))
	for _, p := range c.quarantine {
		stats = append(stats, QuarantineStats{Worker: p.worker, Flapping: p.cooling == coolingFlapping, Until: p.coolUntil})
	}
	slices.SortFunc(stats, func(a, b QuarantineStats) int { return cmp.Compare(a.Worker.PodUID, b.Worker.PodUID) })
	return stats
}
