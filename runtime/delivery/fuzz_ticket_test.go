package delivery

import (
	"testing"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// FuzzTickets makes a ticket of one delivery and shows it for another: it proves the claim of that delivery and of no other, wherever the
// one text ends and the next begins (B-238).
func FuzzTickets(f *testing.F) {
	f.Add("pod", int64(1), 1, "job", "pod", int64(1), 1, "job")
	f.Add("pod", int64(1), 1, "job", "podj", int64(1), 1, "ob")
	f.Add("", int64(0), 0, "", "", int64(-1), -1, "")
	f.Add("p", int64(1), 256, "j", "p", int64(256), 1, "j")
	f.Fuzz(func(t *testing.T, pod string, seq int64, attempt int, id, otherPod string, otherSeq int64, otherAttempt int, otherID string) {
		var keyed, unkeyed tickets
		keyed.rekey(queue.Secret{1})
		ticket := keyed.of(pod, seq, attempt, id)
		same := pod == otherPod && seq == otherSeq && attempt == otherAttempt && id == otherID
		shown := protocol.Claim{StoreSeq: otherSeq, MessageID: otherID, Attempt: otherAttempt, Ticket: ticket}
		if keyed.prove(otherPod, shown) != same {
			t.Errorf("the ticket of %q, %d, %d, %q for %q, %d, %d, %q: %v", pod, seq, attempt, id, otherPod, otherSeq, otherAttempt, otherID, !same)
		}
		if unkeyed.prove(otherPod, shown) || unkeyed.prove(pod, protocol.Claim{StoreSeq: seq, MessageID: id, Attempt: attempt}) {
			t.Error("a claim is proven without a key")
		}
	})
}
