package delivery

import (
	"encoding/binary"
	"sort"
)

// packedJob is what the backlog keeps of a job that waits far from its turn. Its id, headers and payload come back from the queue with the
// read that brings it near.
type packedJob struct {
	seq                       int64
	size, attempts, uncounted int32
	reloaded                  bool
}

// job is the job anew, without its id.
func (p packedJob) job() *job {
	return &job{seq: p.seq, size: p.size, attempts: p.attempts, uncounted: p.uncounted, reloaded: p.reloaded, index: -1}
}

// packedJobs holds jobs in store order, in a few bytes each and without a pointer for each, so that a backlog of millions is small and costs
// the garbage collector nothing.
type packedJobs struct {
	runs deque[packedRun]
	jobs int
}

// packedRun is some of them in a row: for each the distance of its sequence from the one before, its size with two flags below it, and its
// counters where they are not 0. All are uvarints.
type packedRun struct {
	before int64 // the sequence that the first one counts from
	last   int64 // the sequence of the last one; of an empty run, before
	jobs   int
	bytes  []byte
}

// packedRunJobs bounds a run, and with it what is read through to find one job.
const packedRunJobs = 256

const (
	packedReloaded = 1 << iota
	packedCounted
	packedFlags = iota // bits
)

// push adds a job that is newer than every other.
func (p *packedJobs) push(j packedJob) {
	p.jobs++
	if p.runs.len() > 0 {
		if n := p.runs.end() - 1; p.runs.at(n).jobs < packedRunJobs {
			r := p.runs.at(n)
			r.push(j)
			p.runs.set(n, r)
			return
		}
	}
	r := packedRun{before: j.seq - 1, last: j.seq - 1, bytes: make([]byte, 0, 3*packedRunJobs)}
	r.push(j)
	p.runs.push(r)
}

// pop takes the oldest; there must be one.
func (p *packedJobs) pop() packedJob {
	r := p.runs.at(p.runs.first)
	j := r.pop()
	p.runs.set(p.runs.first, r)
	p.jobs--
	p.trim()
	return j
}

// first is the lowest sequence, 0 if there is none.
func (p *packedJobs) first() int64 {
	if p.jobs == 0 {
		return 0
	}
	r := p.runs.at(p.runs.first)
	return r.pop().seq
}

// find looks a job up without taking it.
func (p *packedJobs) find(seq int64) (packedJob, bool) {
	if p.jobs == 0 {
		return packedJob{}, false
	}
	for r := p.runs.at(p.runOf(seq)); r.jobs > 0; {
		if j := r.pop(); j.seq >= seq {
			return j, j.seq == seq
		}
	}
	return packedJob{}, false
}

// remove takes a job out that find has found.
func (p *packedJobs) remove(seq int64) {
	n := p.runOf(seq)
	r := p.runs.at(n)
	rest := packedRun{before: r.before, last: r.before, bytes: make([]byte, 0, len(r.bytes))}
	for r.jobs > 0 {
		if j := r.pop(); j.seq != seq {
			rest.push(j)
		}
	}
	p.runs.set(n, rest)
	p.jobs--
	p.trim()
}

// join adds those of another, which are all newer.
func (p *packedJobs) join(newer packedJobs) {
	for newer.runs.len() > 0 {
		p.runs.push(newer.runs.pop())
	}
	p.jobs += newer.jobs
}

// trim drops the empty runs in front.
func (p *packedJobs) trim() {
	for p.runs.len() > 0 && p.runs.at(p.runs.first).jobs == 0 {
		p.runs.pop()
	}
}

// runOf is the number of the run that a sequence is in, if it is in any.
func (p *packedJobs) runOf(seq int64) int64 {
	n := sort.Search(p.runs.len()-1, func(i int) bool { return p.runs.at(p.runs.first+int64(i)).last >= seq })
	return p.runs.first + int64(n)
}

func (r *packedRun) push(j packedJob) {
	what := uint64(j.size) << packedFlags
	if j.reloaded {
		what |= packedReloaded
	}
	counted := j.attempts != 0 || j.uncounted != 0
	if counted {
		what |= packedCounted
	}
	r.bytes = binary.AppendUvarint(r.bytes, uint64(j.seq-r.last))
	r.bytes = binary.AppendUvarint(r.bytes, what)
	if counted {
		r.bytes = binary.AppendUvarint(r.bytes, uint64(j.attempts))
		r.bytes = binary.AppendUvarint(r.bytes, uint64(j.uncounted))
	}
	r.last = j.seq
	r.jobs++
}

func (r *packedRun) pop() packedJob {
	r.before += int64(r.number())
	j := packedJob{seq: r.before}
	what := r.number()
	j.size, j.reloaded = int32(what>>packedFlags), what&packedReloaded != 0
	if what&packedCounted != 0 {
		j.attempts, j.uncounted = int32(r.number()), int32(r.number())
	}
	r.jobs--
	return j
}

func (r *packedRun) number() uint64 {
	n, size := binary.Uvarint(r.bytes)
	r.bytes = r.bytes[size:]
	return n
}
