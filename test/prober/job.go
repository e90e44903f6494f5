package prober

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
)

// Source is the ce-source of every job; with the ce-id it makes the message id.
const Source = "/prober"

// poison marks jobs that always fail.
const poison = "-poison"

// Job is one job of the load. It follows from the seed and its number.
type Job struct {
	EventID string
	Payload []byte
}

// MessageID is the deduplication key of the job.
func (j Job) MessageID() string { return Source + "|" + j.EventID }

// SHA256 is the hash of the payload.
func (j Job) SHA256() string {
	sum := sha256.Sum256(j.Payload)
	return hex.EncodeToString(sum[:])
}

// JobOf makes the nth job: one in a thousand is poisoned, most are small, some as large as 100 KiB.
func JobOf(seed uint64, n int) Job {
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	j := Job{EventID: fmt.Sprintf("%d-%06d", seed, n)}
	if random.IntN(1000) == 0 {
		j.EventID += poison
	}
	size := 50 + random.IntN(2000)
	if random.IntN(200) == 0 {
		size = random.IntN(100 << 10)
	}
	j.Payload = make([]byte, size)
	for i := range j.Payload {
		j.Payload[i] = byte(random.Uint32())
	}
	return j
}

// Poisoned says whether a job is one that always fails.
func Poisoned(messageID string) bool { return strings.HasSuffix(messageID, poison) }
