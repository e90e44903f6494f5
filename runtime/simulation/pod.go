package simulation

import (
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// pod is one worker pod: an app that runs handlers and, one after the other, the sidecars that feed it.
type pod struct {
	w       *world
	name    string
	uid     string
	sidecar *sidecar // nil between two starts of it
	ready   bool     // the app answers its port
	broken  bool     // it is of the revision whose every handler fails
	dark    bool     // nothing gets in or out
	leaving bool     // it was told to drain for good
	gone    bool
	lost    map[*flow][]protocol.Claim // what its dead sidecars ran
}

func (w *world) addPod() {
	p := &pod{w: w, name: w.name("pod"), ready: true, broken: w.chance(w.profile.Broken)}
	p.uid = "uid-" + p.name
	w.pods = append(w.pods, p)
	p.boot()
}

func (p *pod) verified() delivery.Worker {
	revision := "good"
	if p.broken {
		revision = "broken"
	}
	return delivery.Worker{PodUID: p.uid, PodName: p.name, Pool: "pool", Revision: revision}
}

// boot starts a sidecar process, with a boot nonce of its own.
func (p *pod) boot() {
	if !p.gone && p.sidecar == nil {
		p.sidecar = newSidecar(p)
		p.sidecar.start()
	}
}

// crashSidecar ends the sidecar's process; the kubelet starts another.
func (p *pod) crashSidecar(f Fault) {
	if p.sidecar == nil {
		return
	}
	if f == SidecarCrashed && !p.w.healing && p.w.chance(0.3) { // declared dead while it lives, and dead a little later
		s := p.sidecar
		p.tellGone(s.name)
		p.w.plan(p.w.upTo(6*time.Second), func() {
			if p.sidecar == s {
				p.crashSidecar(SidecarCrashedMidStep)
			}
		})
		return
	}
	p.w.count(f)
	p.w.note(p.name, "sidecar crashes (%s)", f)
	if p.w.chance(0.4) { // its lease tells, soon or after the next process is bound
		p.tellGone(p.sidecar.name)
	}
	p.sidecar.leaveRuns()
	p.sidecar.die()
	p.sidecar = nil
	p.w.plan(50*time.Millisecond+p.w.someTime(500*time.Millisecond), p.boot)
}

// remove ends the pod. Producers hear of it as their informers do: soon, late or never.
func (p *pod) remove() {
	if p.gone {
		return
	}
	p.vanish()
	if !p.w.healing && p.w.chance(0.2) {
		p.w.count(PodGoneUnnoticed)
		return
	}
	p.tellGone("")
}

// tellGone lets every producer know that a process of the pod is over, or with an empty boot nonce the whole pod.
func (p *pod) tellGone(boot string) {
	for _, f := range p.w.flows {
		for _, producer := range f.producers {
			p.w.plan(p.w.upTo(2*time.Second), func() {
				producer.receive(func() {
					producer.take(delivery.WorkerGone{PodUID: p.uid, BootNonce: boot, Reason: "its lease says so"})
				})
			})
		}
	}
}

// vanish ends the pod and tells nobody.
func (p *pod) vanish() {
	p.gone = true
	p.w.note(p.name, "is gone")
	if p.sidecar != nil {
		p.sidecar.die()
		p.sidecar = nil
	}
	p.w.pods = slices.DeleteFunc(p.w.pods, func(o *pod) bool { return o == p })
}

func (p *pod) setReady(ready bool) {
	p.ready = ready
	if p.sidecar != nil {
		p.sidecar.receive(func() { p.sidecar.take(delivery.AppReady{Ready: ready}) })
	}
}

// restartApp replaces the app's process: handlers end with it.
func (p *pod) restartApp() {
	p.w.count(AppRestarted)
	p.w.note(p.name, "app restarts")
	if s := p.sidecar; s != nil {
		s.abortRuns()
		s.receive(func() {
			s.abortRuns() // a sidecar that slept through the restart cuts what it began since
			s.take(delivery.AppRestarted{})
		})
	}
	if p.w.chance(0.5) {
		p.setReady(false)
		p.w.plan(p.w.someTime(time.Second), func() { p.setReady(true) })
	}
}

// notices draws whether a process sees that it was paused; one whose pause fell between two looks at the clock does not.
func (w *world) notices() bool {
	if !w.healing && w.chance(0.2) {
		w.count(PauseUnnoticed)
		return false
	}
	return true
}

// darken cuts the pod off; when light returns, its streams may be dead or go on.
func (p *pod) darken(length time.Duration) {
	p.w.count(PodPartitioned)
	p.w.note(p.name, "is cut off for %v", length)
	p.dark = true
	p.w.plan(length, p.lighten)
}

func (p *pod) lighten() {
	if !p.dark {
		return
	}
	p.dark = false
	if st := p.sidecar.anyStream(); st != nil && p.w.chance(0.5) {
		st.end()
	}
}

// drain asks the sidecar to finish. A pod that leaves goes when it has, or when its grace is over.
func (p *pod) drain(leaving bool, grace time.Duration) {
	s := p.sidecar
	if s == nil {
		return
	}
	p.w.count(DrainStarted)
	p.leaving = p.leaving || leaving
	s.receive(func() {
		s.draining = true
		s.take(delivery.Cordon{Force: true})
	})
	if leaving {
		p.w.plan(grace, func() {
			if !p.gone {
				p.w.count(DrainKilled)
				p.remove()
			}
		})
	}
}

func (p *pod) uncordon() {
	s := p.sidecar
	if s == nil || p.leaving {
		return
	}
	p.w.count(Uncordoned)
	s.receive(func() {
		s.draining, s.drained = false, false
		s.take(delivery.Uncordon{})
	})
}

// healPods gives every pod light, a ready app and demand, and lets the leaving ones leave.
func (w *world) healPods() {
	for _, p := range slices.Clone(w.pods) {
		p.lighten()
		p.boot()
		p.sidecar.crashIn = 0
		p.sidecar.resume()
		p.setReady(true)
		if p.leaving {
			p.remove()
			continue
		}
		p.uncordon()
		p.sidecar.healRuns()
		// A half-open stream ends by itself: the machines must notice.
	}
	if len(w.pods) == 0 {
		w.addPod()
	}
}

func (p *pod) unfinished() string {
	if p.sidecar == nil {
		return "no sidecar runs"
	}
	return p.sidecar.unfinished()
}
