package producer

import (
	"context"
	"errors"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/queue"
)

// lead takes the seat and keeps it until ctx ends, or another member has fenced it out, or the queue could not be loaded for so long
// that somebody else should try. What failed for good keeps the seat: nobody loads again what no load heals.
func (m *member) lead(ctx context.Context) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	m.turn++
	s := &seat{self: m.self}
	s.self.Turn = m.turn
	failed := make(chan struct{}, 1)
	lease, _ := m.candidate.Lease()
	var nonce int64
	s.producer, nonce = m.take(s.self.Owner(), lease.Halted, func(f delivery.Failed) {
		if record, ok := m.halt(f); ok {
			s.halt.Store(&record)
		} else if m.shared && errors.Is(f.Cause, queue.ErrFenced) {
			s.fencedBy.Store(&f)
			s.fencedOut.Store(true)
		}
		select {
		case failed <- struct{}{}:
		default: // the one that is there makes keep look
		}
	})
	m.seat.Store(s)
	m.configure(s.producer)
	if m.nonce() != nonce { // changed before anybody found the producer in its seat
		s.producer.Recover()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.producer.Run(ctx)
	}()
	lost := m.shared && m.keep(ctx, s, failed)
	if m.shared {
		leave()
	}
	<-done
	if !m.shared {
		return // a stopped producer still answers for what it knows
	}
	m.seat.Store(nil)
	m.letGo(context.WithoutCancel(ctx), s)
	if lost {
		m.candidate.Lost(m.now(), s.loadTook)
	}
}

// keep renews the Lease and watches over the seat. It returns true where the seat was lost, and false where ctx ended.
func (m *member) keep(ctx context.Context, s *seat, failed <-chan struct{}) bool {
	began := m.now()
	renewed := began - time.Hour
	for {
		m.round(ctx)
		silence, _ := m.times()
		if now := m.now(); now-renewed >= silence/4 && m.renew(ctx, silence) {
			renewed = now
		}
		left := s.halt.Load()
		if stats, err := s.producer.Stats(ctx); err == nil {
			s.epoch.Store(uint64(stats.Epoch))
			if stats.Failure == nil {
				s.halt.CompareAndSwap(left, nil) // recovered from: it is not said again, also where the nonce is changed back
			}
			if over := m.review(s, stats, began, silence); over {
				return true
			}
			m.leaveWord(ctx, s, stats)
		}
		m.attend(ctx, failed)
		if s.fencedOut.Load() {
			if stats, err := s.producer.Stats(ctx); err == nil { // it may have loaded and failed within one beat
				s.epoch.Store(uint64(stats.Epoch))
			}
			return m.fencedOut(s, "a write was refused")
		}
		if ctx.Err() != nil {
			return false
		}
	}
}

// review decides whether the turn is over.
func (m *member) review(s *seat, stats endpoint.ProducerStats, began, silence time.Duration) bool {
	m.noteTrouble(s, stats)
	owner, epoch, _, _ := m.candidate.Owner()
	switch {
	case stats.Epoch == 0 && m.troubled(s) >= silence:
		m.log.Info("The queue cannot be loaded; another member may try", "cause", stats.QueueMessage)
		return true
	case stats.Epoch == 0:
		return false
	case epoch > stats.Epoch && owner != s.self:
		return m.fencedOut(s, "member "+owner.Pod+" has loaded it")
	case s.loadTook == 0:
		s.loadTook = m.now() - began
	case m.now()-began > 5*silence:
		m.candidate.Kept()
	}
	return false
}

// attend waits for a beat, or until the seat's producer has failed.
func (m *member) attend(ctx context.Context, failed <-chan struct{}) {
	_, beat := m.times()
	timer := time.NewTimer(beat)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-failed:
	}
}

// fencedOut ends the turn: this member stands by again, and the flow goes on elsewhere.
func (m *member) fencedOut(s *seat, cause string) bool {
	s.fencedOut.Store(true)
	m.fenced.Add(1)
	m.turns.add(s.epoch.Load(), s.fencedBy.Load(), cause)
	m.log.Info("Another member has the queue now; standing by", "cause", cause)
	return true
}

// renew keeps the Lease, or gets it back if nobody is behind it. Without it the seat is kept all the same (B-253).
func (m *member) renew(ctx context.Context, silence time.Duration) bool {
	if m.lease == nil {
		return false
	}
	if seen, ok := m.candidate.Lease(); !ok || seen.Holder != m.self.Holder() {
		m.readLease(ctx)
	}
	if !m.candidate.MayHold(m.now()) {
		return false
	}
	seen, _ := m.candidate.Lease()
	record, err := m.lease.Hold(ctx, m.self.Holder(), silence, seen)
	if err != nil {
		m.candidate.LeaseRead(m.now(), seen, err)
		return false
	}
	m.candidate.LeaseRead(m.now(), record, nil)
	return true
}

// word is what the Lease is to say of the turn's failure for good, empty if there is none that nobody has answered.
func (m *member) word(s *seat) string {
	if record := s.halt.Load(); record != nil && record.RecoverNonce == m.nonce() {
		return record.word()
	}
	return ""
}

// leaveWord has the Lease say how the turn has failed, so that a member that takes over at once does not load what no load heals; and
// nothing once the queue is loaded again.
func (m *member) leaveWord(ctx context.Context, s *seat, stats endpoint.ProducerStats) {
	word := m.word(s)
	seen, ok := m.candidate.Lease()
	if m.lease == nil || !ok || seen.Holder != m.self.Holder() || seen.Halted == word {
		return
	}
	if word == "" && (stats.Failure != nil || stats.Epoch == 0) {
		return
	}
	record, err := m.lease.Halt(ctx, word, seen)
	m.candidate.LeaseRead(m.now(), record, err)
}

// letGo releases the Lease, so that another member need not wait, and says first how the turn has failed.
func (m *member) letGo(ctx context.Context, s *seat) {
	if m.lease == nil {
		return
	}
	word := m.word(s)
	for range 2 {
		seen, err := m.lease.Read(ctx)
		if err != nil || seen.Holder != m.self.Holder() {
			return
		}
		if word != "" && seen.Halted != word {
			if seen, err = m.lease.Halt(ctx, word, seen); err != nil {
				continue
			}
		}
		if record, err := m.lease.Release(ctx, seen); err == nil {
			m.candidate.LeaseRead(m.now(), record, nil)
			return
		}
	}
}

// noteTrouble remembers since when the queue does not work.
func (m *member) noteTrouble(s *seat, stats endpoint.ProducerStats) {
	switch {
	case stats.QueueAvailable || stats.Failure != nil:
		s.troubledSince.Store(0)
	case s.troubledSince.Load() == 0:
		s.troubledSince.Store(int64(m.now()))
	}
}

// troubled is how long the queue has not worked for the seat.
func (m *member) troubled(s *seat) time.Duration {
	since := s.troubledSince.Load()
	if since == 0 {
		return 0
	}
	return m.now() - time.Duration(since)
}
