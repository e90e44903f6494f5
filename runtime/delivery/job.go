package delivery

import (
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// place says where a live job is; it is in exactly one at any time (I-1, I-2).
type place uint8

const (
	waiting  place = iota + 1 // in the backlog, payload in memory or further back than the budget reaches
	fetching                  // in the backlog, its payload is being read back
	delayed                   // waits for a back-off
	bound                     // held by a binding, unsettled
	settling                  // confirmed or dead-lettered by a settlement, not durable yet
)

// job is one stored job that is in memory, with or without its payload; see packedJob for the others.
type job struct {
	body protocol.Job // Payload is nil while it is not in memory; MessageID is empty while the job is among the backlog's unnamed
	seq  int64

	binding   *binding // while bound, and while settling until the settlement is taken over
	workerSeq int64    // in the binding; while it waits in the backlog's ring, its number there
	last      uint64   // number of the pod that failed it last: the next try prefers another one
	due       Now      // while delayed
	index     int      // in its heap, -1 outside

	size      int32
	attempts  int32
	uncounted int32
	place     place

	dispatched  bool // by this process
	redelivered bool // the current delivery is not the first
	reloaded    bool // read from the queue: may have been dispatched before
	dirty       bool // its counters wait for the durable lane
	resend      bool // bound, and wanted in memory for a resend
	dead        bool // settling into the dead letters rather than as confirmed
	isolated    bool // settling, set apart because its write keeps failing
	finished    bool // settling into the dead letters, although its handler finished
	redriven    bool // by a person, and not read since: it may have ended before that was told
	packed      bool // what was found of a packed job, which stays packed until it is withdrawn
	reason      string
}

func (j *job) ref() queue.JobRef { return queue.JobRef{MessageID: j.body.MessageID, StoreSeq: j.seq} }

// pending reports whether no worker holds the job and none has settled it.
func (j *job) pending() bool { return j.place == waiting || j.place == fetching || j.place == delayed }

func (j *job) loaded() bool { return j.body.Payload != nil }

// attempt is the number of the next or current try. The one that rejected the job is counted, and stays the current one until the dead
// letter is written.
func (j *job) attempt() int {
	if j.place == settling && j.dead {
		return int(j.attempts)
	}
	return int(j.attempts) + 1
}
