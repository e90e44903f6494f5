package fencing

import (
	"slices"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// formerBoots is how many earlier incarnations of a pod are remembered.
const formerBoots = 16

// sight is what was last seen of the Lease of one pod.
type sight struct {
	// UID is the Lease's, Transitions how often it has been acquired.
	UID         string `json:"uid"`
	Transitions int32  `json:"transitions"`
	// Boot is the incarnation that holds it, or held it when it was deleted.
	Boot string `json:"boot"`
	// Formers held it before, the oldest first.
	Formers []string `json:"formers,omitempty"`
	// Deleted says that the Lease is gone.
	Deleted bool `json:"deleted,omitempty"`
}

// see takes in what a Lease says, and returns which incarnation that shows to be over, if any. A Lease that was acquired less often than
// was seen before tells of no successor: its cluster was restored from a backup. One whose holder is no process of the pod tells nothing.
func (s sight) see(podUID string, lease LeaseRecord) (next sight, ended string) {
	boot, ours := bootOf(lease.Holder, podUID)
	if !ours || slices.Contains(s.Formers, boot) {
		return s, ""
	}
	if lease.UID == s.UID && (s.Deleted || lease.Transitions < s.Transitions || lease.Transitions == s.Transitions && boot != s.Boot) {
		return s, "" // an answer that was long on its way, a backup, or an edit by hand
	}
	next = sight{UID: lease.UID, Transitions: lease.Transitions, Boot: boot, Formers: s.Formers}
	if s.Boot == "" || s.Boot == boot {
		return next, ""
	}
	next.Formers = append(slices.Clone(s.Formers), s.Boot)
	if len(next.Formers) > formerBoots {
		next.Formers = next.Formers[1:]
	}
	if s.Deleted {
		return next, "" // that was told already
	}
	return next, s.Boot
}

// deleted takes in that the Lease is gone, and returns which incarnation that ends, if any.
func (s sight) deleted(uid string) (next sight, ended string) {
	if s.Deleted || s.Boot == "" || uid != s.UID {
		return s, ""
	}
	s.Deleted = true
	return s, s.Boot
}

// look is what came of asking the API server about one Lease.
type look int

const (
	notLooked   look = iota
	lookFound        // it answered, and the sight is what it said
	lookAbsent       // it answered that there is no such Lease
	lookSilent       // it did not answer
	lookLimited      // it was not asked, because it is asked so much already
)

// judgement says whether an incarnation may bind.
type judgement struct {
	// ask says that nothing can be said before the API server is asked.
	ask     bool
	refusal *transport.Refusal
}

// judgeIncarnation judges a process of a pod by what was last seen of the pod's Lease, and by what came of a look at it now. Only the holder
// may bind. Where the API server is silent, what was seen of this very process counts, and a process of which nothing was seen is taken for
// what its token and its pod make it: no outage keeps workers away.
func judgeIncarnation(boot string, seen sight, now look) judgement {
	switch {
	case slices.Contains(seen.Formers, boot):
		return judgement{refusal: superseded("a newer process of this pod holds its Lease")}
	case seen.Boot == boot && !seen.Deleted:
		return judgement{}
	case now == notLooked:
		return judgement{ask: true}
	case now == lookLimited:
		return judgement{refusal: undecided("too many Leases are asked for at a time")}
	case seen.Boot == boot:
		return judgement{refusal: over(transport.LabelLeaseDeleted, "the Lease of the pod was deleted: the sidecar has to start anew")}
	case now == lookSilent:
		return judgement{}
	case now == lookAbsent:
		return judgement{refusal: unheld("the pod has no Lease yet")}
	case seen.Boot == "":
		return judgement{refusal: unheld("no process of this pod holds its Lease yet")}
	}
	return judgement{refusal: superseded("another process of this pod holds its Lease")}
}

func superseded(reason string) *transport.Refusal { return over(transport.LabelLeaseHeld, reason) }

// over refuses a process that will never bind again. Its code makes the process look at its Lease at once, and end.
func over(label transport.Label, reason string) *transport.Refusal {
	return &transport.Refusal{Code: protocol.RefusedSuperseded, Label: label, Reason: reason, RetryAfter: retrySoon}
}

// unheld is no refusal of the worker: it will have its Lease in a moment.
func unheld(reason string) *transport.Refusal {
	return &transport.Refusal{Code: protocol.RefusedUnavailable, Label: transport.LabelLeaseMissing, Reason: reason, RetryAfter: retrySoon}
}
