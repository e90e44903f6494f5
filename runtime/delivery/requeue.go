package delivery

import "time"

// uncountedFactor times MaxAttempts is how many deliveries may end before the handler started.
const uncountedFactor = 5

// patience is how often a job may come back from a lost worker at once; afterwards it waits, for it may be what kills them (G-X02).
const patience = 1

// comeBack puts a job back that its binding did not settle. From a lost worker, a started job has had a try; the others
// go back to the head untouched, and nothing is written (G-104).
func (c *Controller) comeBack(now Now, j *job, f fate, started bool) {
	j.workerSeq = 0
	c.unwant(j)
	switch {
	case f == kept:
		c.backlog.requeue(j)
	case started:
		j.reason = "the worker was lost while it ran the job"
		c.crashed(now, j)
	case int(j.uncounted) < 2*patience:
		j.uncounted++
		c.backlog.requeue(j)
	default:
		j.reason = "the worker was lost before it started the job"
		c.wasted(now, j, c.jobBackoff(int(j.uncounted)-patience))
	}
}

// crashed counts a try that ended with its worker.
func (c *Controller) crashed(now Now, j *job) {
	if int(j.attempts)+1 > patience {
		c.failed(now, j)
		return
	}
	if c.cfg.MaxAttempts == 1 {
		c.failed(now, j)
		return
	}
	j.attempts++
	c.queueCounters(j)
	c.backlog.requeue(j)
}

// wasted counts a delivery that ended before the handler started, and lets the job wait.
func (c *Controller) wasted(now Now, j *job, wait time.Duration) {
	j.uncounted++
	if c.cfg.MaxAttempts > 0 && int(j.uncounted) >= uncountedFactor*c.cfg.MaxAttempts {
		c.end(j, true)
		return
	}
	c.queueCounters(j)
	c.wait(now, j, wait)
}

func (c *Controller) jobBackoff(n int) time.Duration {
	return backoff(c.random, c.cfg.BackoffInitial, c.cfg.BackoffMax, n)
}

func (c *Controller) wait(now Now, j *job, d time.Duration) {
	c.backlog.delay(j, now+d)
	c.armRelease()
}

// releaseDelayed moves the jobs whose back-off is over into the backlog.
func (c *Controller) releaseDelayed(now Now) {
	for c.backlog.release(now) {
	}
	c.armRelease()
}

func (c *Controller) armRelease() {
	if c.backlog.delayed.len() == 0 {
		c.timers.stop(c.release)
		return
	}
	c.timers.set(c.release, c.backlog.delayed.peek().due)
}
