package delivery

import (
	"fmt"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// fetch reads payloads back that were left in the store.
type fetch struct {
	op      OpID
	bytes   int64 // of payload that the read in flight brings
	tries   int
	err     error
	retryAt *timer
	// missing are jobs that the store did not return. Either another writer settled them, and this Controller is fenced and does
	// not know it, or a row is lost: the next write tells.
	missing []*job
}

const (
	// fetchAhead is how many jobs beyond the free demand are kept ready.
	fetchAhead = 256
	// fetchBatch bounds one ReadJobs.
	fetchBatch = 256
	// fetchBytes bounds the payload of one ReadJobs; one job always fits.
	fetchBytes = 4 << 20
)

func (f *fetch) init() { f.retryAt = newTimer(func(Now) {}) }

func (f *fetch) forget() { f.op, f.bytes, f.missing = 0, 0, nil }

// prefetch asks for the payloads whose turn is near. Jobs whose payload is here are dispatched meanwhile.
func (c *Controller) prefetch(Now) {
	b := &c.backlog
	if b.far() > 0 && c.roster.len() > 0 {
		for b.far() > 0 && c.wantsMore() {
			b.chill()
		}
	}
	if c.fetch.op != 0 || b.wanted.len()+b.resends.len() == 0 || c.fetch.retryAt.armed() {
		return
	}
	seqs, bytes := make([]int64, 0, min(fetchBatch, b.wanted.len()+b.resends.len())), int64(0)
	for len(seqs) < fetchBatch {
		from := c.nextRead(len(seqs), bytes)
		if from == nil || len(seqs) > 0 && bytes+int64(from.peek().size) > fetchBytes {
			break
		}
		j := from.pop()
		bytes += int64(j.size)
		b.reading = append(b.reading, j)
		seqs = append(seqs, j.seq)
	}
	if len(seqs) > 0 {
		c.fetch.op, c.fetch.bytes = c.nextOp(), bytes
		c.emit(ReadJobs{Op: c.fetch.op, Seqs: seqs})
	}
}

// nextRead is where the next job to read waits, after so many jobs and bytes of the same read; nil if there is none, or no room for
// it in memory and no worker that waits for it. However many jobs come back at once, as when many workers are lost, they do not
// fill the memory.
func (c *Controller) nextRead(jobs int, bytes int64) *heap[*job] {
	b := &c.backlog
	switch {
	case b.resends.len() > 0:
		return &b.resends
	case b.wanted.len() == 0:
	case c.memory+bytes+int64(b.wanted.peek().size) <= c.cfg.MemoryBytes || b.warm()+jobs < c.roster.free:
		return &b.wanted
	}
	return nil
}

// wantsMore reports whether one more cold job should be read: a few beyond the demand while memory lasts, else only what
// a worker waits for.
func (c *Controller) wantsMore() bool {
	b := &c.backlog
	ready := b.warm() + b.fetching
	if c.memory+c.fetch.bytes < c.cfg.MemoryBytes && ready < c.roster.free+fetchAhead {
		return b.fetching < 2*fetchBatch
	}
	return ready < c.roster.free && b.fetching < fetchBatch
}

func (c *Controller) jobsRead(now Now, ev JobsRead) {
	if ev.Op == 0 || ev.Op != c.fetch.op {
		c.drop("foreign-operation")
		return
	}
	b := &c.backlog
	reading := b.reading
	b.reading, c.fetch.op, c.fetch.bytes = nil, 0, 0
	if ev.Err == nil && len(ev.Jobs) != len(reading) {
		ev.Err = fmt.Errorf("%d jobs read, %d asked for", len(ev.Jobs), len(reading))
	}
	if ev.Err != nil {
		c.fetch.err = ev.Err
		c.fetch.tries++
		c.timers.set(c.fetch.retryAt, now+backoff(c.random, c.cfg.QueueBackoff, maxBackoff, c.fetch.tries))
		for _, j := range reading {
			b.want(j)
		}
		return
	}
	c.fetch.err, c.fetch.tries = nil, 0
	for i, j := range reading {
		c.jobRead(j, ev.Jobs[i])
	}
}

func (c *Controller) jobRead(j *job, body protocol.Job) {
	switch {
	case j.place != fetching && !j.resend: // settled meanwhile
	case body.MessageID == "" || len(body.Payload) == 0 || j.body.MessageID != "" && body.MessageID != j.body.MessageID:
		c.fetch.missing = append(c.fetch.missing, j)
		c.verify(j)
	case j.place == fetching:
		if j.body.MessageID == "" {
			c.name(j, body.MessageID)
		}
		j.redriven = false
		if j.index >= 0 { // its binding ended during the read, and it asked again
			c.backlog.wanted.remove(j.index)
		}
		j.body.Headers, j.body.Payload = body.Headers, body.Payload
		c.memory += int64(j.size)
		c.backlog.fetched(j)
	default:
		c.unwant(j) // it may have asked again while it was being read
		c.frame(j, body)
	}
}

// verify makes a write happen that tells about a missing job. It is one about the job itself where its id is known.
func (c *Controller) verify(j *job) {
	if j.body.MessageID == "" {
		c.members.joined = true
		return
	}
	c.queueCounters(j)
}

// verified ends the doubt about missing jobs: the write proved that nobody else owns the queue.
func (c *Controller) verified() {
	for _, j := range c.fetch.missing {
		switch {
		case !c.known(j) || j.place != fetching && !j.resend:
		case j.redriven:
			c.vanished(j)
		default:
			c.fail(StageProtocol, fmt.Errorf("%w: stored job %d is not readable", queue.ErrConflict, j.seq))
			return
		}
	}
	c.fetch.missing = nil
}

// unverified reads missing jobs again later: the write that should tell about them failed.
func (c *Controller) unverified(now Now) {
	c.fetch.tries++
	c.timers.set(c.fetch.retryAt, now+backoff(c.random, c.cfg.QueueBackoff, maxBackoff, c.fetch.tries))
	for _, j := range c.fetch.missing {
		c.backlog.want(j)
	}
	c.fetch.missing = nil
}

// want asks for the payload of a bound job, for a resend.
func (c *Controller) want(j *job) {
	if !j.resend {
		j.resend = true
		c.backlog.resends.push(j)
	}
}

// unwant forgets that a resend waits for the payload.
func (c *Controller) unwant(j *job) {
	if j.resend && j.index >= 0 {
		c.backlog.resends.remove(j.index)
	}
	j.resend = false
}

// unload drops the payload of a job from memory.
func (c *Controller) unload(j *job) {
	if j.loaded() {
		c.memory -= int64(j.size)
		j.body.Payload, j.body.Headers = nil, nil
	}
}
