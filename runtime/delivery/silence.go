package delivery

// inDoubt reports whether the controller has been silent for so long that it may be about to give this worker's jobs to another:
// nothing new is started then.
func (c *Consumer) inDoubt(now Now) bool { return now-c.heard >= doubtOf(c.registration.deadline) }

// wake grants the controller a full period, for nobody could be heard while this process stood still. After a pause that is long enough
// to have cost the binding nothing is started on its account before the controller has said whether it still stands.
func (c *Consumer) wake(now Now) {
	if c.bound() && c.inDoubt(now) {
		c.registration.unanswered = true
		c.registration.pause = c.cfg.ResendInterval
		c.register(now)
	}
	c.heard = now
	c.armSilence(now)
}

// silenceEnds is when a silent stream is given up. A worker without a binding is told little, and waits longer.
func (c *Consumer) silenceEnds() Now {
	if c.bound() {
		return c.heard + c.registration.deadline
	}
	return max(c.heard, c.registration.notBefore) + patientDeadline
}

func (c *Consumer) armSilence(now Now) {
	if c.connected {
		c.timers.set(c.silenceTimer, max(now+1, c.silenceEnds()))
	}
}

// checkSilence dials again after a full deadline of silence: the stream may be half open (B-170).
func (c *Consumer) checkSilence(now Now) {
	if !c.connected {
		return
	}
	if now < c.silenceEnds() {
		c.armSilence(now)
		return
	}
	c.emit(Reconnect{c.conn})
	c.hangUp()
}

// beat says that this worker lives, unless it said something else meanwhile.
func (c *Consumer) beat(now Now) {
	if !c.bound() || !c.connected {
		return
	}
	if next := c.sent + c.registration.heartbeat; next > now {
		c.timers.set(c.beatTimer, next)
		return
	}
	c.sendHeartbeat(now)
}

func (c *Consumer) sendHeartbeat(now Now) {
	c.send(protocolHeartbeat(c))
	c.spoke(now)
}

// spoke notes that a message carried the binding and the started sequence.
func (c *Consumer) spoke(now Now) {
	c.sent = now
	c.startedTold = c.sub.started
	c.timers.stop(c.startedTimer)
	if !c.beatTimer.armed() {
		c.timers.set(c.beatTimer, now+c.registration.heartbeat)
	}
}

// tellStarted reports started jobs that nothing else reported: should this worker die now, their try counts.
func (c *Consumer) tellStarted(now Now) {
	if c.bound() && c.startedTold < c.sub.started {
		c.sendHeartbeat(now)
	}
}
