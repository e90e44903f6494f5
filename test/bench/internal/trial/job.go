package trial

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"strconv"

	"golang.org/x/sys/unix"
)

// MinPayload is the size of what a job says about itself.
const MinPayload = 16

// Job is one job. Its payload says which it is and when it was meant to be sent, and is bytes beyond that which only this number has.
type Job struct {
	Number  uint64
	Payload []byte
}

// ID is a name that no other job of the trial has.
func (j Job) ID() string { return "job-" + strconv.FormatUint(j.Number, 10) }

// noise is what payloads are cut from; nothing compresses it.
var noise = func() []byte {
	bytes := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{'b', 'e', 'n', 'c', 'h'}).Read(bytes) // never fails
	return bytes
}()

// filling is the part of the noise that belongs to a number.
func filling(number uint64, size int) []byte {
	at := int(number * 131 % uint64(len(noise)-size))
	return noise[at : at+size]
}

// MakeJob makes a job. sendAt is when the schedule wants it sent, on the clock of Monotonic; 0 where nobody asks.
func MakeJob(number uint64, sendAt int64, size int) Job {
	size = max(size, MinPayload)
	payload := make([]byte, size)
	binary.LittleEndian.PutUint64(payload, number)
	binary.LittleEndian.PutUint64(payload[8:], uint64(sendAt))
	copy(payload[MinPayload:], filling(number, size-MinPayload))
	return Job{Number: number, Payload: payload}
}

// ReadJob is the number and the time in a payload; ok says that all its bytes are what MakeJob made.
func ReadJob(payload []byte, size int) (number uint64, sendAt int64, ok bool) {
	if len(payload) != max(size, MinPayload) {
		return 0, 0, false
	}
	number = binary.LittleEndian.Uint64(payload)
	sendAt = int64(binary.LittleEndian.Uint64(payload[8:]))
	return number, sendAt, bytes.Equal(payload[MinPayload:], filling(number, len(payload)-MinPayload))
}

// Monotonic is the clock that all processes of the machine share, in nanoseconds.
func Monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // there is no machine without it
	}
	return now.Nano()
}
