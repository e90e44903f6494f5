package bounds

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"

	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// Relay is a bare relay over batched gRPC without TLS.
type Relay struct {
	// Durable syncs every job to a log before it is accepted.
	Durable bool
	// Hops says that the apps are in processes of their own, each beside a relay of its own, as apps are beside sidecars.
	Hops bool
	hub  *hub
}

// Name implements trial.System.
func (r *Relay) Name() string {
	name := "relay"
	if r.Hops {
		name += "-hops"
	}
	if r.Durable {
		name += "-durable"
	}
	return name
}

// Settings implements trial.System.
func (r *Relay) Settings() string {
	shape, store := "producer and workers in two processes", "in memory"
	if r.Hops {
		shape = "producing app, relay, relay beside the workers, worker app; Unix sockets to the apps"
	}
	if r.Durable {
		store = "group-committed log with fdatasync"
	}
	return fmt.Sprintf("batched gRPC without TLS, %s; %s; neither redelivery nor fencing", shape, store)
}

// Available implements trial.System.
func (*Relay) Available() error { return nil }

// Processes implements trial.System.
func (r *Relay) Processes(s *trial.Stage) []trial.Process {
	if !r.Hops {
		return trial.TwoProcesses(s, "hub")
	}
	processes := []trial.Process{{Name: "hub", Serve: []string{"hub"}}, {Name: "hop", Serve: []string{"hop"}}}
	processes = append(processes, trial.Workers(s)...)
	return append(processes, trial.Process{Name: "producer", Produces: true})
}

// Names of what is told from process to process.
const (
	toldHub  = "hub"
	toldHop  = "hop"
	toldDoor = "door"
)

// Serve implements trial.System.
func (r *Relay) Serve(ctx context.Context, s *trial.Stage, role string) (func() error, error) {
	if role == "hop" {
		return serveHop(ctx, s)
	}
	var log *commitLog
	if r.Durable {
		var err error
		if log, err = openLog(s.Path("log")); err != nil {
			return nil, err
		}
	}
	r.hub = newHub(log)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	door, err := net.Listen("unix", s.Path("door.sock"))
	if err != nil {
		return nil, err
	}
	stopStreams, stopDoor := serve(listener, r.hub.methods()), serve(door, r.hub.methods())
	stop := func() error { return errors.Join(r.hub.close(), stopDoor(), stopStreams()) }
	return stop, errors.Join(s.Tell(toldHub, listener.Addr().String()), s.Tell(toldDoor, "unix:"+s.Path("door.sock")))
}

// serveHop passes the streams of apps on to the hub.
func serveHop(ctx context.Context, s *trial.Stage) (func() error, error) {
	hub, err := s.Told(toldHub)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", s.Path("hop.sock"))
	if err != nil {
		return nil, err
	}
	stop := serve(listener, map[string]func(grpc.ServerStream) error{"Pull": func(app grpc.ServerStream) error {
		up, stop, err := open(ctx, hub, "Pull")
		if err != nil {
			return err
		}
		defer func() { _ = stop() }() // the app has heard how it ended
		ended := make(chan error, 2)
		go func() { ended <- pass[pb.Request](app.RecvMsg, up.SendMsg) }()
		go func() { ended <- pass[pb.SequencedMessage](up.RecvMsg, app.SendMsg) }()
		return end(<-ended)
	}})
	return stop, s.Tell(toldHop, "unix:"+s.Path("hop.sock"))
}

// pass moves messages until an end fails.
func pass[M any](receive, send func(any) error) error {
	for {
		message := new(M)
		if err := receive(message); err != nil {
			return err
		}
		if err := send(message); err != nil {
			return err
		}
	}
}

// Consume implements trial.System.
func (r *Relay) Consume(ctx context.Context, s *trial.Stage, _ int, handle func([]byte)) (func() error, error) {
	where := toldHub
	if r.Hops {
		where = toldHop
	}
	address, err := s.Told(where)
	if err != nil {
		return nil, err
	}
	stream, stop, err := open(ctx, address, "Pull")
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(&pb.Request{RequestUpTo: int64(s.Window)}); err != nil {
		return nil, errors.Join(err, stop())
	}
	var working sync.WaitGroup
	working.Go(func() { work(stream, int64(s.Window), handle) })
	return func() error {
		err := stop()
		working.Wait()
		return err
	}, nil
}

// work handles what comes, and asks for as much again after each message.
func work(stream grpc.ClientStream, window int64, handle func([]byte)) {
	settled := int64(0)
	for {
		batch := new(pb.SequencedMessage)
		if err := stream.RecvMsg(batch); err != nil {
			return
		}
		for _, d := range batch.Deliveries {
			handle(d.Job.Payload)
		}
		settled += int64(len(batch.Deliveries))
		if err := stream.SendMsg(&pb.Request{ConfirmedSeq: settled, RequestUpTo: settled + window}); err != nil {
			return
		}
	}
}

// Produce implements trial.System.
func (r *Relay) Produce(ctx context.Context, s *trial.Stage) (trial.Submitter, error) {
	if !r.Hops {
		return hubSubmitter{r.hub}, nil
	}
	door, err := s.Told(toldDoor)
	if err != nil {
		return nil, err
	}
	stream, stop, err := open(ctx, door, "Submit")
	if err != nil {
		return nil, err
	}
	p := &doorSubmitter{stream: stream, stop: stop}
	p.reading.Go(p.read)
	return p, nil
}

var relayPace = trial.Pace{Callers: 8, Batch: 64}

func deliveries(jobs []trial.Job) []*pb.Delivery {
	out := make([]*pb.Delivery, len(jobs))
	for i, j := range jobs {
		out[i] = &pb.Delivery{Job: &pb.Job{MessageId: j.ID(), Payload: j.Payload}}
	}
	return out
}

// hubSubmitter hands jobs to a hub of the same process.
type hubSubmitter struct{ hub *hub }

// Submit implements trial.Submitter.
func (h hubSubmitter) Submit(_ context.Context, jobs []trial.Job) error {
	return h.hub.put(deliveries(jobs))
}

// Pace implements trial.Submitter.
func (hubSubmitter) Pace() trial.Pace { return relayPace }

// Close implements trial.Submitter.
func (hubSubmitter) Close() error { return nil }

// doorSubmitter hands jobs to the hub of another process.
type doorSubmitter struct {
	stream  grpc.ClientStream
	stop    func() error
	reading sync.WaitGroup

	sending sync.Mutex
	mu      sync.Mutex
	sent    int64
	waiting []waiter
}

// waiter waits until so many jobs were taken.
type waiter struct {
	upTo int64
	done chan struct{}
}

// Submit implements trial.Submitter.
func (p *doorSubmitter) Submit(ctx context.Context, jobs []trial.Job) error {
	done, err := p.send(jobs)
	if err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *doorSubmitter) send(jobs []trial.Job) (<-chan struct{}, error) {
	message := &pb.SequencedMessage{Deliveries: deliveries(jobs)}
	done := make(chan struct{})
	p.sending.Lock()
	defer p.sending.Unlock()
	p.mu.Lock()
	p.sent += int64(len(jobs))
	p.waiting = append(p.waiting, waiter{p.sent, done})
	p.mu.Unlock()
	return done, p.stream.SendMsg(message)
}

func (p *doorSubmitter) read() {
	for {
		answer := new(pb.Request)
		if err := p.stream.RecvMsg(answer); err != nil {
			return
		}
		p.mu.Lock()
		for len(p.waiting) > 0 && p.waiting[0].upTo <= answer.ConfirmedSeq {
			close(p.waiting[0].done)
			p.waiting = p.waiting[1:]
		}
		p.mu.Unlock()
	}
}

// Pace implements trial.Submitter.
func (*doorSubmitter) Pace() trial.Pace { return relayPace }

// Close implements trial.Submitter.
func (p *doorSubmitter) Close() error {
	err := p.stop()
	p.reading.Wait()
	return err
}
