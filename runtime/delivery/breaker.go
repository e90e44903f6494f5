package delivery

import (
	"cmp"
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// revision is one revision of a pool as the flow's jobs fare with it, and its breaker: after breakerFailures failures in
// a row, of at least breakerJobs jobs, its workers get nothing but one probe at a time. What they hold and have not started goes back,
// and what they fail meanwhile costs no attempt, for it is the revision that is at fault. Any success closes the breaker.
//
// A failure is what a handler said or did about a job: a nack, a reject, a timeout. Workers that are lost say nothing about the jobs of
// others; those that die again and again are quarantined one by one.
type revision struct {
	pool, name string
	bindings   int
	idleAt     Now // when the last binding ended

	failures int     // since the last success
	failed   []int64 // some of the store sequences that failed, without repeats
	reason   string  // of the latest failure

	open   bool
	tries  int // probes that failed
	due    bool
	prober *binding // chosen for the probe that is due
	probe  *job     // given to the prober and not settled
	timer  *timer
}

type revisionKey struct{ pool, name string }

const (
	breakerFailures = 10
	breakerJobs     = 3
	// probeFirst is the pause before the first probe; it doubles up to probeLast with each one that fails.
	probeFirst = time.Second
	probeLast  = time.Minute
	// idleRevisions and idleRevisionFor bound how many revisions without a binding are remembered, and for how long.
	idleRevisions   = 64
	idleRevisionFor = time.Hour
)

// join counts a binding under the revision of its worker.
func (c *Controller) join(b *binding) {
	key := revisionKey{b.worker.Pool, b.worker.Revision}
	r := c.revisions[key]
	if r == nil {
		r = &revision{pool: key.pool, name: key.name}
		r.timer = newTimer(func(now Now) {
			r.due = true
			c.seekProber(now, r)
		})
		c.revisions[key] = r
	}
	r.bindings++
	b.revision = r
}

// leave takes a binding out of its revision. A probe that ends with its worker has said nothing, but may be what ended it.
func (c *Controller) leave(now Now, b *binding, f fate) {
	r := b.revision
	r.bindings--
	if r.prober == b {
		probing := r.probe != nil
		r.prober, r.probe = nil, nil
		if probing && f == lost {
			r.tries++
		}
		if probing {
			c.armProbe(now, r)
		} else if r.open {
			c.seekProber(now, r)
		}
	}
	if r.bindings == 0 {
		r.idleAt = now
		c.forgetRevisions(now)
	}
}

// forgetRevisions is the end of revisions that no worker has any more.
func (c *Controller) forgetRevisions(now Now) {
	var idle []*revision
	for _, r := range c.revisions {
		if r.bindings == 0 {
			idle = append(idle, r)
		}
	}
	slices.SortFunc(idle, func(a, b *revision) int {
		return cmp.Or(cmp.Compare(a.idleAt, b.idleAt), cmp.Compare(a.pool, b.pool), cmp.Compare(a.name, b.name))
	})
	for i, r := range idle {
		if now-r.idleAt > idleRevisionFor || len(idle)-i > idleRevisions {
			c.timers.stop(r.timer)
			delete(c.revisions, revisionKey{r.pool, r.name})
		}
	}
}

// excuses reports whether a failure of the job costs it no attempt.
func (r *revision) excuses(j *job) bool { return r.open && r.probe != j }

// judge learns from a settlement.
func (c *Controller) judge(now Now, r *revision, j *job, outcome protocol.Outcome) {
	probed := r.probe == j
	switch outcome {
	case protocol.Confirmed:
		c.succeed(now, r)
		return
	case protocol.Nacked, protocol.Rejected, protocol.Abandoned, protocol.Inadmissible:
		r.failures++
		r.reason = j.reason
		if len(r.failed) < breakerJobs && !slices.Contains(r.failed, j.seq) {
			r.failed = append(r.failed, j.seq)
		}
		if probed {
			r.tries++
		}
	case protocol.HandedBack, protocol.Delayed: // no handler has failed
	}
	switch {
	case probed:
		r.prober, r.probe = nil, nil
		c.armProbe(now, r)
	case !r.open && r.failures >= breakerFailures && len(r.failed) >= breakerJobs:
		c.pause(now, r)
	}
}

// succeed closes the breaker of a revision.
func (c *Controller) succeed(now Now, r *revision) {
	r.failures, r.failed = 0, r.failed[:0]
	if !r.open {
		return
	}
	r.open, r.due, r.tries, r.prober, r.probe, r.reason = false, false, 0, nil, nil, ""
	c.timers.stop(r.timer)
	c.eachOf(r, func(b *binding) { c.refresh(now, b) })
}

// pause opens the breaker.
func (c *Controller) pause(now Now, r *revision) {
	r.open, r.tries = true, 0
	c.counts.paused++
	c.armProbe(now, r)
	c.eachOf(r, func(b *binding) {
		c.refresh(now, b)
		if n := b.unstarted(); n > 0 && b.conn != nil {
			c.toWorker(b.conn.conn, handBack(b, n))
		}
	})
}

func (c *Controller) armProbe(now Now, r *revision) {
	r.due = false
	c.timers.set(r.timer, now+backoff(c.random, probeFirst, probeLast, r.tries+1))
}

// seekProber looks for a worker that could take the probe. Where there is none, the first that gets demand becomes it.
func (c *Controller) seekProber(now Now, r *revision) {
	c.eachOf(r, func(b *binding) {
		if r.prober == nil {
			c.refresh(now, b)
		}
	})
}

// choose makes a binding with capacity the prober, or releases one that has lost it.
func (c *Controller) choose(now Now, b *binding) {
	r := b.revision
	if !r.open || r.probe != nil {
		return
	}
	switch able := b.capacity(c, now) > 0; {
	case able && r.due && r.prober == nil:
		r.prober = b
	case !able && r.prober == b:
		r.prober = nil
		c.seekProber(now, r)
	}
}

// admits is how much of a binding's capacity its revision lets it use.
func (r *revision) admits(b *binding, capacity int) int {
	switch {
	case !r.open:
		return capacity
	case r.prober == b && r.probe == nil:
		return min(capacity, 1)
	}
	return 0
}

// eachOf looks at every binding, so it is for what happens once in a while.
func (c *Controller) eachOf(r *revision, do func(*binding)) {
	for _, b := range c.roster.ring {
		if b.revision == r {
			do(b)
		}
	}
}

// RevisionStats describes a paused revision of a pool.
type RevisionStats struct {
	Pool, Revision string
	// Failures in a row, and the reason of the latest.
	Failures int
	Reason   string
}

func (c *Controller) pausedRevisions() []RevisionStats {
	var paused []RevisionStats
	for _, r := range c.revisions {
		if r.open && r.bindings > 0 {
			paused = append(paused, RevisionStats{Pool: r.pool, Revision: r.name, Failures: r.failures, Reason: r.reason})
		}
	}
	slices.SortFunc(paused, func(a, b RevisionStats) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Revision, b.Revision))
	})
	return paused
}
