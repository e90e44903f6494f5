package delivery

// timer is one deadline of one object. It fires once and is set again by what it fires.
type timer struct {
	at    Now
	index int
	fire  func(now Now)
}

func newTimer(fire func(Now)) *timer { return &timer{index: -1, fire: fire} }

func (t *timer) armed() bool { return t.index >= 0 }

// timers orders the armed timers of a machine.
type timers struct{ heap[*timer] }

func newTimers() timers {
	return timers{heap[*timer]{
		less:  func(a, b *timer) bool { return a.at < b.at },
		moved: func(t *timer, i int) { t.index = i },
	}}
}

// set arms t or moves it.
func (ts *timers) set(t *timer, at Now) {
	if !t.armed() {
		t.at = at
		ts.push(t)
		return
	}
	if t.at != at {
		t.at = at
		ts.fix(t.index)
	}
}

func (ts *timers) stop(t *timer) {
	if t.armed() {
		ts.remove(t.index)
	}
}

// run fires everything that is due. A timer that arms itself for now or earlier waits for the next run.
func (ts *timers) run(now Now) {
	for range ts.len() {
		if ts.len() == 0 || ts.peek().at > now {
			return
		}
		ts.pop().fire(now)
	}
}

func (ts *timers) next() (Now, bool) {
	if ts.len() == 0 {
		return 0, false
	}
	return ts.peek().at, true
}
