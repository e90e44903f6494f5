package delivery

import (
	"cmp"
	"slices"
	"time"
)

// dedup is what a worker remembers about producers, on a budget (docs/design/dedup.md). There is one entry for each queue that has
// delivered to one of its flows. The one not heard of for longest goes when there are too many, and each that has been silent for
// long goes as well. Losing an entry loses no job: at worst one that had finished runs once more.
type dedup struct {
	limit   int           // 0 = none
	idle    time.Duration // 0 = for ever
	entries map[producerKey]*producer
	// newest and oldest are the ends of the list in the order of the last words.
	newest, oldest *producer
	sweepTimer     *timer

	evicted, swept uint64
	unwarned       uint64 // evictions since the last warning
	warned         bool
	warnedAt       Now
}

// producerKey names a producer: the data of a flow. Two flows that show the same data, as one restored from a copy of the other does,
// are two producers, so that they do not reset each other.
type producerKey struct{ flow, queue string }

// producer is what a worker remembers of one of them. The sub-flow that the worker tracks now, its watermark and what is above it,
// is kept by the Consumer, for only the producer that it talks to has any. Its incarnation is the binding: a new one takes the place of
// the old one, in the same entry.
type producer struct {
	key       producerKey
	consumer  *Consumer
	confirmed remembered
	touched   Now
	tracked   bool
	newer     *producer
	older     *producer
}

// evictionWarning is the least time between two warnings.
const evictionWarning = time.Minute

func (d *dedup) init(g *ConsumerGroup) {
	d.entries = map[producerKey]*producer{}
	d.limit, d.idle = g.cfg.MaxProducers, g.cfg.ProducerIdle
	d.sweepTimer = newTimer(g.sweepProducers)
}

// touch notes that a producer has spoken.
func (d *dedup) touch(now Now, p *producer) {
	if !p.tracked {
		return
	}
	p.touched = now
	if d.newest != p {
		d.unlink(p)
		d.link(p)
	}
}

func (d *dedup) link(p *producer) {
	p.older, p.newer = d.newest, nil
	if d.newest != nil {
		d.newest.newer = p
	} else {
		d.oldest = p
	}
	d.newest = p
}

func (d *dedup) unlink(p *producer) {
	if p.newer != nil {
		p.newer.older = p.older
	} else {
		d.newest = p.older
	}
	if p.older != nil {
		p.older.newer = p.newer
	} else {
		d.oldest = p.newer
	}
	p.newer, p.older = nil, nil
}

func (d *dedup) remove(p *producer) {
	d.unlink(p)
	delete(d.entries, p.key)
	p.tracked = false
}

// of returns the producers of a flow, in a fixed order.
func (d *dedup) of(flow string) []*producer {
	var found []*producer
	for key, p := range d.entries {
		if key.flow == flow {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b *producer) int { return cmp.Compare(a.key.queue, b.key.queue) })
	return found
}

// enter finds or makes the entry of a producer that has spoken. What has to go for it goes with the next evict.
func (g *ConsumerGroup) enter(now Now, c *Consumer, queue string) *producer {
	d, key := &g.dedup, producerKey{c.flow, queue}
	p := d.entries[key]
	if p == nil {
		p = &producer{key: key, consumer: c, tracked: true}
		d.entries[key] = p
		d.link(p)
	}
	d.touch(now, p)
	g.armSweep(now)
	return p
}

// armSweep sees to it that a sweep comes as long as there is somebody to forget.
func (g *ConsumerGroup) armSweep(now Now) {
	if d := &g.dedup; d.idle > 0 && len(d.entries) > 0 && !d.sweepTimer.armed() {
		g.timers.set(d.sweepTimer, now+d.idle)
	}
}

// evict makes room, the least recently heard first, and warns of it now and then.
func (g *ConsumerGroup) evict(now Now) {
	d := &g.dedup
	for d.limit > 0 && len(d.entries) > d.limit {
		p := d.oldest
		d.remove(p)
		d.evicted++
		d.unwarned++
		p.consumer.forgotten(p)
	}
	if d.unwarned > 0 && (!d.warned || now-d.warnedAt >= evictionWarning) {
		g.todo.emit(ProducersEvicted{Evicted: d.unwarned, Tracked: len(d.entries)})
		d.warned, d.warnedAt, d.unwarned = true, now, 0
	}
}

// sweepProducers forgets who has been silent. It runs once in the time that it grants, so that a silent producer is remembered for one
// to two of them.
func (g *ConsumerGroup) sweepProducers(now Now) {
	d := &g.dedup
	for p := d.oldest; p != nil && now-p.touched >= d.idle; p = d.oldest {
		d.remove(p)
		d.swept++
		p.consumer.forgotten(p)
	}
	g.armSweep(now)
}

// budget takes a changed budget.
func (g *ConsumerGroup) budget(now Now) {
	d := &g.dedup
	if d.idle != g.cfg.ProducerIdle {
		d.idle = g.cfg.ProducerIdle
		g.timers.stop(d.sweepTimer)
		g.armSweep(now)
	}
	d.limit = g.cfg.MaxProducers
	g.evict(now)
}

// forgotten lets go of what was known about a producer. If the Consumer talks to it, the sub-flow goes with it: the worker registers
// anew on another stream, so that the controller sends everything again that is not settled there.
func (c *Consumer) forgotten(p *producer) {
	if c.producer != p {
		return
	}
	c.drop("producer-forgotten")
	c.loseBinding()
	c.producer = &producer{consumer: c}
	c.sub.reset(1)
	if c.connected {
		c.emit(Reconnect{c.conn})
		c.hangUp()
	}
}
