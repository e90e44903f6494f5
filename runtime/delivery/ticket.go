package delivery

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// tickets makes and checks the proofs that workers claim jobs with, under the key that the queue keeps. One keyed hash is reused
// for all, because every delivery needs a ticket.
type tickets struct {
	mac     hash.Hash // nil without a key: there are no tickets then, and no claim counts
	message []byte
	sum     [sha256.Size]byte
}

// What a MAC under the queue's secret says. The first byte of every message tells them apart.
const (
	macTicket byte = iota + 1
	macQueue
)

func (t *tickets) rekey(secret queue.Secret) {
	t.mac = nil
	if secret != (queue.Secret{}) {
		t.mac = hmac.New(sha256.New, secret[:])
	}
}

// of is the ticket of one attempt of one job at one pod. It names the pod and not its process: a sidecar that was restarted must
// still be able to claim what its pod holds.
func (t *tickets) of(podUID string, storeSeq int64, attempt int, messageID string) (ticket protocol.Ticket) {
	if t.mac == nil {
		return ticket
	}
	m := t.message[:0]
	m = append(m, macTicket)
	m = binary.BigEndian.AppendUint64(m, uint64(storeSeq))
	m = binary.BigEndian.AppendUint64(m, uint64(attempt))
	m = binary.BigEndian.AppendUint64(m, uint64(len(podUID))) // where it ends, the MessageID begins
	m = append(m, podUID...)
	m = append(m, messageID...)
	t.message = m
	copy(ticket[:], t.sign(m))
	return ticket
}

func (t *tickets) sign(message []byte) []byte {
	t.mac.Reset()
	t.mac.Write(message)
	return t.mac.Sum(t.sum[:0])
}

// prove reports whether a claim's ticket was made for this very pod, job and attempt.
func (t *tickets) prove(podUID string, claim protocol.Claim) bool {
	want := t.of(podUID, claim.StoreSeq, claim.Attempt, claim.MessageID)
	return t.mac != nil && hmac.Equal(want[:], claim.Ticket[:])
}

// queue is a name of the data that gives nothing of the secret away; empty without one.
func (t *tickets) queue() string {
	if t.mac == nil {
		return ""
	}
	return hex.EncodeToString(t.sign([]byte{macQueue})[:16])
}
