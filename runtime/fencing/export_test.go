package fencing

// LeasesSeen says whether the API server has told of every Lease.
func (g *Guard) LeasesSeen() bool { return g.incarnations.informer.HasSynced() }
