package bounds

import (
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// hub is the middle of a bare relay: jobs in, perhaps to a log, and out to whichever worker has room.
type hub struct {
	log   *commitLog // nil: jobs stay in memory
	mu    sync.Mutex
	ready *sync.Cond
	jobs  []*pb.Delivery
	over  bool
}

func newHub(log *commitLog) *hub {
	h := &hub{log: log}
	h.ready = sync.NewCond(&h.mu)
	return h
}

// frameJobs is how many jobs go into a message at most.
const frameJobs = 64

// put takes jobs; it returns when they are in the log.
func (h *hub) put(jobs []*pb.Delivery) error { return h.admit(h.store(jobs), jobs) }

// store begins to write jobs to the log, where there is one.
func (h *hub) store(jobs []*pb.Delivery) <-chan error {
	if h.log == nil {
		return nil
	}
	return h.log.append(jobs)
}

// admit waits until jobs are written, and gives them to the workers.
func (h *hub) admit(written <-chan error, jobs []*pb.Delivery) error {
	if written != nil {
		if err := <-written; err != nil {
			return err
		}
	}
	h.mu.Lock()
	h.jobs = append(h.jobs, jobs...)
	h.mu.Unlock()
	h.ready.Broadcast()
	return nil
}

// take waits for at most n jobs, which is what room says by then; none means that the hub is over.
func (h *hub) take(room func() int) []*pb.Delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	for !h.over && (len(h.jobs) == 0 || room() <= 0) {
		h.ready.Wait()
	}
	n := min(len(h.jobs), room(), frameJobs)
	if h.over || n <= 0 {
		return nil
	}
	taken := h.jobs[:n:n]
	h.jobs = h.jobs[n:]
	return taken
}

func (h *hub) close() error {
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	h.ready.Broadcast()
	if h.log != nil {
		return h.log.close()
	}
	return nil
}

// methods are the hub's streams: Submit takes jobs and answers how many it has taken, Pull gives them to a worker that says how many it has
// settled and how far it can go.
func (h *hub) methods() map[string]func(grpc.ServerStream) error {
	return map[string]func(grpc.ServerStream) error{"Submit": h.submit, "Pull": h.pull}
}

// submit reads on while earlier jobs are being written, so that one stream fills a group.
func (h *hub) submit(stream grpc.ServerStream) error {
	type part struct {
		jobs    []*pb.Delivery
		written <-chan error
	}
	parts := make(chan part, 64)
	answered := make(chan error, 1)
	go func() {
		taken := int64(0)
		var err error
		for p := range parts {
			if err == nil {
				err = h.admit(p.written, p.jobs)
			}
			if taken += int64(len(p.jobs)); err == nil {
				err = stream.SendMsg(&pb.Request{ConfirmedSeq: taken})
			}
		}
		answered <- err
	}()
	for {
		batch := new(pb.SequencedMessage)
		if err := stream.RecvMsg(batch); err != nil {
			close(parts)
			return errors.Join(end(err), <-answered)
		}
		parts <- part{batch.Deliveries, h.store(batch.Deliveries)}
	}
}

func (h *hub) pull(stream grpc.ServerStream) error {
	var sent, upTo int64 // guarded by the hub
	gone := false
	go func() {
		for {
			demand := new(pb.Request)
			err := stream.RecvMsg(demand)
			h.mu.Lock()
			upTo, gone = max(upTo, demand.RequestUpTo), err != nil
			h.mu.Unlock()
			h.ready.Broadcast()
			if err != nil {
				return
			}
		}
	}()
	for {
		jobs := h.take(func() int {
			if gone {
				return 1
			}
			return int(upTo - sent)
		})
		if jobs == nil || gone { // what was taken for a stream that is gone is lost, as a bare relay loses it
			return nil
		}
		sent += int64(len(jobs))
		if err := stream.SendMsg(&pb.SequencedMessage{Deliveries: jobs}); err != nil {
			return err
		}
	}
}

func end(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
