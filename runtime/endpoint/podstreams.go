package endpoint

import (
	"errors"
	"slices"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// mostStreams is how many streams a pod may have at a time. It needs one; others may have broken without anybody noticing yet.
const mostStreams = 8

var errTooManyStreams = errors.New("the pod has opened newer streams than this one, more than it needs")

// podStreams are the streams of each pod by its UID, oldest first: no pod may use up the memory of the producer with them (I-12).
type podStreams map[string][]podStream

type podStream struct {
	conn delivery.ConnID
	out  *transport.Outbox[protocol.ToWorker]
}

// add ends the oldest stream of a pod that has too many. What waits in it is lost, for its peer may not be reading.
func (s podStreams) add(podUID string, opened podStream) {
	s[podUID] = append(s[podUID], opened)
	if streams := s[podUID]; len(streams) > mostStreams {
		streams[0].out.Abort(errTooManyStreams)
		s[podUID] = slices.Delete(streams, 0, 1)
	}
}

func (s podStreams) remove(podUID string, conn delivery.ConnID) {
	left := slices.DeleteFunc(s[podUID], func(x podStream) bool { return x.conn == conn })
	if len(left) == 0 {
		delete(s, podUID)
		return
	}
	s[podUID] = left
}
