package delivery

import (
	"fmt"
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// register gives a verified worker a binding, or refreshes the one that its incarnation holds.
func (c *Controller) register(now Now, w *workerConn, m protocol.RegisterConsumer) {
	if c.phase != PhaseRunning { // answered when the queue is loaded; meanwhile the worker knows why it waits
		w.waiting = &m
		c.refuseRegistration(w, m, protocol.RefusedUnavailable, "the producer loads its queue", 0)
		return
	}
	if err := m.Validate(); err != nil {
		c.refuseRegistration(w, m, protocol.RefusedInvalid, err.Error(), maxBackoff)
		c.malformed(now, w, "malformed-registration")
		return
	}
	if m.Version != protocol.Version {
		c.refuseRegistration(w, m, protocol.RefusedVersion,
			fmt.Sprintf("the worker speaks protocol version %d, this flow %d", m.Version, protocol.Version), maxBackoff)
		return
	}
	if m.Incarnation.PodUID != w.worker.PodUID {
		c.refuseRegistration(w, m, protocol.RefusedIdentity, "the stream belongs to another pod", maxBackoff)
		return
	}
	c.doubt(m)
	p := c.pods[w.worker.PodUID]
	if p == nil {
		c.podsSeen++
		p = &pod{uid: w.worker.PodUID, number: c.podsSeen}
		c.pods[p.uid] = p
	}
	p.worker = w.worker
	c.registerPod(now, w, p, m)
}

func (c *Controller) registerPod(now Now, w *workerConn, p *pod, m protocol.RegisterConsumer) {
	boot := m.Incarnation.BootNonce
	switch {
	case slices.Contains(p.superseded, boot):
		c.refuseRegistration(w, m, protocol.RefusedSuperseded, "a newer process of this pod took its place", maxBackoff)
		return
	case boot != p.boot && w.serial < p.serial:
		// A process opens its streams after the one before it has died: this word was long on its way.
		p.supersede(boot)
		c.refuseRegistration(w, m, protocol.RefusedSuperseded, "a newer process of this pod took its place", maxBackoff)
		return
	case boot != p.boot:
		c.succeedProcess(now, w, p, boot)
	}
	switch {
	case now < p.coolUntil:
		c.refuseRegistration(w, m, protocol.RefusedCoolingDown, p.cooling, p.coolUntil-now)
	case p.binding != nil:
		c.reregister(now, w, p.binding, m)
	default:
		p.serial = max(p.serial, w.serial)
		c.acknowledge(now, c.bind(now, w, p, m), m.Claims)
	}
}

// succeedProcess notes that a newer process of the pod is there, which is the end of the one before it.
func (c *Controller) succeedProcess(now Now, w *workerConn, p *pod, boot string) {
	if b := p.binding; b != nil {
		c.endBinding(now, b, protocol.RefusedSuperseded, "a newer process of this pod took its place", 0, b.conn != w)
	}
	if p.boot != "" && p.mourned != p.boot {
		c.died(now, p)
	}
	p.supersede(p.boot)
	p.boot, p.serial = boot, max(p.serial, w.serial)
}

// reregister refreshes the nonce fence of a living binding and moves it to the stream that asks; sequences, demand and jobs
// stay, because resetting them would desynchronise both sides (G-086).
func (c *Controller) reregister(now Now, w *workerConn, b *binding, m protocol.RegisterConsumer) {
	if b.conn != nil && w.serial < b.conn.serial {
		c.drop("stale-connection")
		return
	}
	if m.Nonce != b.nonce {
		if slices.Contains(b.nonces, m.Nonce) {
			c.drop("stale-nonce")
			return
		}
		if len(b.nonces) == rememberedNonces {
			b.nonces = b.nonces[1:]
		}
		b.nonces = append(b.nonces, b.nonce)
		b.nonce, b.draining = m.Nonce, false
	}
	if b.conn != w {
		if b.conn != nil {
			b.conn.binding = nil
			c.emit(CloseWorker{b.conn.conn, protocol.RefusedSuperseded})
		}
		b.conn, w.binding, b.told = w, b, 0
		b.pod.serial = max(b.pod.serial, w.serial)
	}
	if b.worker != w.worker {
		c.leave(now, b, kept)
		b.worker = w.worker
		c.join(b)
	}
	b.window = min(m.Window, c.cfg.MaxWindow)
	c.hear(now, b)
	c.acknowledge(now, b, m.Claims)
}

// acknowledge takes the claims in and answers the registration.
func (c *Controller) acknowledge(now Now, b *binding, claims []protocol.Claim) {
	adopted, ended := c.claims(now, b, claims)
	c.refresh(now, b)
	b.heartbeat, b.deadline = c.cfg.Heartbeat, c.cfg.Deadline
	c.toWorker(b.conn.conn, protocol.RegistrationAck{
		Session: c.session, Nonce: b.nonce, BindingID: b.id, Secret: b.secret, NextSeq: b.slots.first, Window: b.window,
		Heartbeat: b.heartbeat, Deadline: b.deadline, Epoch: c.ancestry(), Queue: c.queueName, Adopted: adopted,
	})
	c.tellClaimsEnded(b, ended)
}

func (c *Controller) refuseRegistration(w *workerConn, m protocol.RegisterConsumer, code protocol.RefusalCode, reason string, wait time.Duration) {
	c.drop(string(code))
	c.toWorker(w.conn, protocol.RegistrationRefused{Nonce: m.Nonce, Code: code, Reason: reason, RetryAfter: wait})
}

// answerWaiting answers the registrations that came while the queue was loading.
func (c *Controller) answerWaiting(now Now) {
	for _, w := range c.connsL {
		if m := w.waiting; m != nil {
			w.waiting = nil
			c.register(now, w, *m)
		}
	}
}
