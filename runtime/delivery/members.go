package delivery

import (
	"maps"
	"slices"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// members keeps the queue's list of bound workers, for the next Load to know whom to wait for. It is a hint: it is written when a
// pod joins that is not on the list, and otherwise only along with something else, so that neither a requeue nor an idle flow
// writes (B-110, B-167).
type members struct {
	listed  map[string]string // pod UID → boot nonce, as written last
	joined  bool              // a bound pod is not on the list
	changed bool              // the list is not true any more
	tries   int
	retryAt *timer
}

func (m *members) init() { m.retryAt = newTimer(func(Now) {}) }

// loaded takes over what the queue has.
func (m *members) loaded(known []protocol.Incarnation) {
	m.list(known)
	m.joined, m.changed = false, false
}

func (m *members) list(known []protocol.Incarnation) {
	m.listed = make(map[string]string, len(known))
	for _, w := range known {
		m.listed[w.PodUID] = w.BootNonce
	}
}

func (m *members) bound(p *pod) {
	boot, ok := m.listed[p.uid]
	m.joined = m.joined || !ok
	m.changed = m.changed || boot != p.boot
}

func (m *members) unbound(p *pod) {
	_, ok := m.listed[p.uid]
	m.changed = m.changed || ok
}

// due reports whether the list is worth a write of its own.
func (m *members) due() bool { return m.joined && !m.retryAt.armed() }

// ride adds the list to a batch that is about to go, if it has news.
func (c *Controller) ride(b *batch) {
	m := &c.members
	if !m.joined && !m.changed {
		return
	}
	b.members = make([]protocol.Incarnation, 0, c.roster.len()+len(c.gate.awaited))
	for _, x := range c.roster.ring {
		b.members = append(b.members, protocol.Incarnation{PodUID: x.pod.uid, BootNonce: x.pod.boot})
	}
	for _, uid := range slices.Sorted(maps.Keys(c.gate.awaited)) { // should this process end now, the next one waits for them as well
		if boot, listed := m.listed[uid]; listed {
			b.members = append(b.members, protocol.Incarnation{PodUID: uid, BootNonce: boot})
		}
	}
	m.list(b.members)
	m.joined, m.changed = false, false
}

// membersNotWritten tries again: soon if the list was all there was to write, else with the batch that is repeated.
func (c *Controller) membersNotWritten(now Now, b batch) {
	if b.members == nil {
		return
	}
	m := &c.members
	m.joined, m.changed = true, true
	m.tries++
	c.timers.set(m.retryAt, now+backoff(c.random, c.cfg.QueueBackoff, maxBackoff, m.tries))
}
