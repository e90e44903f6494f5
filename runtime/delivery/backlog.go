package delivery

// backlog holds the stored jobs that no worker holds, in store order whatever order they came back in (G-X14).
//
// New jobs arrive in store order and queue in a ring at O(1), and packed behind it where they are too many to be kept in memory; jobs that
// come back go to a heap. Jobs whose payload is not in memory and whose turn is near wait in `wanted` until the next read.
type backlog struct {
	fresh    deque[*job] // ascending; nil where a job was taken out
	cold     int         // jobs in fresh without payload; when there are any, all later ones are cold too
	coldFrom int64       // no job before this number in fresh is cold
	newest   int64       // highest store sequence that ever joined fresh or packed

	packed  packedJobs
	unnamed map[int64]*job // on their way from packed into memory, by store sequence: nobody knows their id yet

	held heldJobs

	returned heap[*job] // payload in memory, by store sequence
	wanted   heap[*job] // payload missing, by store sequence
	resends  heap[*job] // bound jobs whose payload a resend needs
	reading  []*job     // in the ReadJobs that is in flight
	delayed  heap[*job] // by due time

	jobs     int   // waiting and fetching
	bytes    int64 // waiting, fetching and delayed
	fetching int   // place == fetching
}

func newBacklog() backlog {
	bySeq := func(a, b *job) bool { return a.seq < b.seq }
	moved := func(j *job, i int) { j.index = i }
	return backlog{
		unnamed:  map[int64]*job{},
		returned: heap[*job]{less: bySeq, moved: moved},
		wanted:   heap[*job]{less: bySeq, moved: moved},
		resends:  heap[*job]{less: bySeq, moved: moved},
		delayed: heap[*job]{moved: moved, less: func(a, b *job) bool {
			return a.due < b.due || a.due == b.due && a.seq < b.seq
		}},
	}
}

// append adds a job that is newer than every other.
func (b *backlog) append(j *job) {
	b.enter(j, waiting)
	b.newest = j.seq
	b.queue(j)
}

// queue puts a waiting job at the end of the ring.
func (b *backlog) queue(j *job) {
	if !j.loaded() {
		if b.cold == 0 {
			b.coldFrom = b.fresh.end()
		}
		b.cold++
	}
	j.workerSeq = b.fresh.end()
	b.fresh.push(j)
}

// pack adds a job that is newer than every other, and of which nothing is kept in memory.
func (b *backlog) pack(p packedJob) {
	b.jobs++
	b.bytes += int64(p.size)
	b.newest = p.seq
	b.packed.push(p)
}

// peek finds a packed job; nil if there is none.
func (b *backlog) peek(seq int64) *job {
	for _, all := range []*packedJobs{&b.held.packed, &b.packed} {
		if p, ok := all.find(seq); ok {
			j := p.job()
			j.place, j.packed = waiting, true
			return j
		}
	}
	return nil
}

// holds reports whether a sequence is that of a job without an id.
func (b *backlog) holds(seq int64) bool { return b.unnamed[seq] != nil || b.peek(seq) != nil }

// unpack takes a packed job out.
func (b *backlog) unpack(seq int64) {
	if b.held.jobs > 0 && seq <= b.held.newest {
		b.held.packed.remove(seq)
		b.held.jobs--
		return
	}
	b.packed.remove(seq)
}

// heldJobs is the ring of reloaded jobs while the gate is shut, and those that are packed behind it. They count among the backlog, and nothing takes them.
type heldJobs struct {
	fresh    deque[*job]
	cold     int
	coldFrom int64
	newest   int64
	packed   packedJobs
	jobs     int
}

// hold sets everything aside that is in the ring or packed.
func (b *backlog) hold() {
	b.held = heldJobs{b.fresh, b.cold, b.coldFrom, b.newest, b.packed, b.fresh.len() + b.packed.jobs}
	b.fresh, b.cold, b.coldFrom, b.packed = deque[*job]{}, 0, 0, packedJobs{}
}

// unhold puts it back before everything that came meanwhile.
func (b *backlog) unhold() {
	if b.held.jobs == 0 {
		b.held = heldJobs{}
		return
	}
	since, packedSince := b.fresh, b.packed
	b.fresh, b.cold, b.coldFrom, b.packed = b.held.fresh, b.held.cold, b.held.coldFrom, b.held.packed
	b.held = heldJobs{}
	for n := since.first; n < since.end(); n++ {
		switch j := since.at(n); {
		case j == nil:
		case j.loaded() && b.far() > 0:
			b.returned.push(j)
		default:
			b.queue(j)
		}
	}
	b.packed.join(packedSince)
}

// withdraw takes a job out of the backlog or its back-off, wherever in them it is.
func (b *backlog) withdraw(j *job) {
	at := j.workerSeq
	j.workerSeq = 0
	b.bytes -= int64(j.size)
	if j.place == delayed {
		b.delayed.remove(j.index)
		return
	}
	b.jobs--
	switch {
	case j.packed:
		b.unpack(j.seq)
		j.packed = false
	case j.place == fetching:
		b.fetching--
		if j.index >= 0 { // else it is being read, and the answer finds it elsewhere
			b.wanted.remove(j.index)
		}
	case j.index >= 0:
		b.returned.remove(j.index)
	case b.held.jobs > 0 && j.seq <= b.held.newest:
		b.held.fresh.set(at, nil)
		b.held.jobs--
		if !j.loaded() {
			b.held.cold--
		}
	default:
		b.fresh.set(at, nil)
		if !j.loaded() {
			b.cold--
		}
	}
}

// requeue puts a job back where its store sequence says: before everything that was stored later (G-103).
func (b *backlog) requeue(j *job) {
	if j.loaded() {
		b.enter(j, waiting)
		b.returned.push(j)
		return
	}
	b.enter(j, fetching)
	b.fetching++
	b.wanted.push(j)
}

// delay parks a job until due.
func (b *backlog) delay(j *job, due Now) {
	j.place, j.due = delayed, due
	b.bytes += int64(j.size)
	b.delayed.push(j)
}

// release moves a job that is due from the back-off into the backlog and reports whether there was one.
func (b *backlog) release(now Now) bool {
	if b.delayed.len() == 0 || b.delayed.peek().due > now {
		return false
	}
	j := b.delayed.pop()
	b.bytes -= int64(j.size)
	b.requeue(j)
	return true
}

// fetched puts a job whose payload was read back among the dispatchable.
func (b *backlog) fetched(j *job) {
	b.fetching--
	j.place = waiting
	b.returned.push(j)
}

// head returns the next dispatchable job without taking it, or nil.
func (b *backlog) head() *job {
	for b.fresh.len() > 0 && b.fresh.at(b.fresh.first) == nil {
		b.fresh.pop()
	}
	var next *job
	if b.fresh.len() > 0 {
		if j := b.fresh.at(b.fresh.first); j.loaded() {
			next = j
		}
	}
	if b.returned.len() > 0 && (next == nil || b.returned.peek().seq < next.seq) {
		return b.returned.peek()
	}
	return next
}

// untriedLook bounds how many jobs are compared for a probe.
const untriedLook = 256

// untried returns the job with the fewest attempts of some dispatchable ones, the oldest of them; head is what head returned.
func (b *backlog) untried(head *job) *job {
	best := head
	see := func(j *job) {
		if j != nil && j.loaded() && (j.attempts < best.attempts || j.attempts == best.attempts && j.seq < best.seq) {
			best = j
		}
	}
	for _, j := range b.returned.items[:min(untriedLook, b.returned.len())] {
		see(j)
	}
	if b.fresh.len() > 0 {
		see(b.fresh.at(b.fresh.first))
	}
	return best
}

// take removes what head or untried returned.
func (b *backlog) take(j *job) {
	if j.index >= 0 {
		b.returned.remove(j.index)
	} else {
		b.fresh.pop()
	}
	b.jobs--
	b.bytes -= int64(j.size)
}

// far counts the jobs that are read before they can be dispatched, and are not yet.
func (b *backlog) far() int { return b.cold + b.packed.jobs }

// chill takes the first cold job of the ring, or else the first packed one, into wanted; false if there is none.
func (b *backlog) chill() bool {
	if b.cold == 0 {
		return b.approach()
	}
	b.coldFrom = max(b.coldFrom, b.fresh.first)
	for ; ; b.coldFrom++ {
		j := b.fresh.at(b.coldFrom)
		if j == nil || j.loaded() {
			continue
		}
		b.fresh.set(b.coldFrom, nil)
		b.coldFrom++
		b.cold--
		b.fetching++
		j.place = fetching
		b.wanted.push(j)
		return true
	}
}

// approach is chill for the packed jobs.
func (b *backlog) approach() bool {
	if b.packed.jobs == 0 {
		return false
	}
	j := b.packed.pop().job()
	j.place = fetching
	b.fetching++
	b.unnamed[j.seq] = j
	b.wanted.push(j)
	return true
}

// want puts a job back whose payload was not read, unless it ended or asked again meanwhile.
func (b *backlog) want(j *job) {
	switch {
	case j.index >= 0:
	case j.resend:
		b.resends.push(j)
	case j.place == fetching:
		b.wanted.push(j)
	}
}

// warm counts the jobs that could be dispatched without a read.
func (b *backlog) warm() int { return b.jobs - b.held.jobs - b.far() - b.fetching }

// oldest is the lowest store sequence in the backlog, 0 if it is empty.
func (b *backlog) oldest() int64 {
	var low int64
	see := func(j *job) {
		if j != nil && j.place != bound && (low == 0 || j.seq < low) {
			low = j.seq
		}
	}
	for _, ring := range []*deque[*job]{&b.held.fresh, &b.fresh} {
		for n := ring.first; n < ring.end(); n++ {
			if j := ring.at(n); j != nil {
				see(j)
				break
			}
		}
	}
	for _, packed := range []*packedJobs{&b.held.packed, &b.packed} {
		if first := packed.first(); first > 0 && (low == 0 || first < low) {
			low = first
		}
	}
	if b.returned.len() > 0 {
		see(b.returned.peek())
	}
	for _, j := range b.wanted.items {
		see(j)
	}
	for _, j := range b.reading {
		see(j)
	}
	return low
}

func (b *backlog) enter(j *job, p place) {
	j.place, j.binding, j.workerSeq = p, nil, 0
	b.jobs++
	b.bytes += int64(j.size)
}
