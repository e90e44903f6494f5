package crash

import "github.com/workpulling/workpulling/test/prober"

// Pasts are those of all workers that ever were, by the UID of the pod.
func (n *Node) Pasts() map[string]prober.Past {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := map[string]prober.Past{}
	for _, p := range n.ever {
		if p.app == nil {
			continue
		}
		sidecars, _ := p.sidecar.past()
		_, pauses := p.app.past()
		out[p.uid()] = prober.Past{Sidecars: sidecars, Pauses: pauses}
	}
	return out
}
