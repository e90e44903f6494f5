package pool

// planLapsed replaces a worker that neither renews its Lease nor has a binding: nothing is left of it but an object that says it runs. It is
// one at a time, and none while the Leases tell of the control plane rather than of the workers. The new worker is made when the old one is
// seen to go.
func planLapsed(s Snapshot, p *Plan, live []Worker) {
	if !s.LeasesTell || !s.MayCreate || s.Deleting {
		return
	}
	for _, w := range live {
		if w.Started && w.Lease == LeaseExpired && w.Unbound {
			p.add(Replace, w, "its Lease has expired and no producer knows it")
			return
		}
	}
}

// leases counts the live workers whose Leases say something.
func (s Snapshot) leases() (fresh, expired int) {
	for _, w := range s.Workers {
		switch {
		case !w.live():
		case w.Lease == LeaseFresh:
			fresh++
		case w.Lease == LeaseExpired:
			expired++
		}
	}
	return fresh, expired
}
