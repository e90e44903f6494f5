package bounds

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// Echo is a producer that sends jobs to workers over gRPC and gets them back.
type Echo struct {
	// Batch is how many jobs a message carries.
	Batch int
}

// Name implements trial.System.
func (e *Echo) Name() string {
	if e.Batch > 1 {
		return "echo-batched"
	}
	return "echo"
}

// Settings implements trial.System.
func (e *Echo) Settings() string {
	return fmt.Sprintf("raw gRPC streams without TLS, %d jobs a message, each message sent back; no queue", e.Batch)
}

// Available implements trial.System.
func (*Echo) Available() error { return nil }

// Processes implements trial.System. Workers listen, so they come first.
func (*Echo) Processes(s *trial.Stage) []trial.Process {
	return append(trial.Workers(s), trial.Process{Name: "producer", Produces: true})
}

// Serve implements trial.System.
func (*Echo) Serve(context.Context, *trial.Stage, string) (func() error, error) {
	return nil, errors.New("nothing stands between")
}

// Consume implements trial.System.
func (*Echo) Consume(_ context.Context, s *trial.Stage, worker int, handle func([]byte)) (func() error, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	stop := serve(listener, map[string]func(grpc.ServerStream) error{"Echo": func(stream grpc.ServerStream) error {
		for {
			message := new(wrapperspb.BytesValue)
			if err := stream.RecvMsg(message); err != nil {
				return err
			}
			unpack(message.Value, handle)
			if err := stream.SendMsg(message); err != nil {
				return err
			}
		}
	}})
	return stop, s.Tell(fmt.Sprintf("echo-%d", worker), listener.Addr().String())
}

// pack puts payloads, each after its length, into one value.
func pack(jobs []trial.Job) []byte {
	size := 0
	for _, j := range jobs {
		size += 4 + len(j.Payload)
	}
	packed := make([]byte, 0, size)
	for _, j := range jobs {
		packed = binary.LittleEndian.AppendUint32(packed, uint32(len(j.Payload)))
		packed = append(packed, j.Payload...)
	}
	return packed
}

func unpack(packed []byte, each func([]byte)) {
	for len(packed) >= 4 {
		n := 4 + int(binary.LittleEndian.Uint32(packed))
		each(packed[4:n])
		packed = packed[n:]
	}
}

// Produce implements trial.System.
func (e *Echo) Produce(ctx context.Context, s *trial.Stage) (trial.Submitter, error) {
	c := &echoClient{batch: e.Batch}
	for worker := range s.Workers {
		address, err := s.Told(fmt.Sprintf("echo-%d", worker))
		if err != nil {
			return nil, err
		}
		stream, stop, err := open(ctx, address, "Echo")
		if err != nil {
			return nil, err
		}
		link := &echoLink{stream: stream, stop: stop}
		link.reading.Go(link.read)
		c.links = append(c.links, link)
	}
	return c, nil
}

// echoClient spreads calls over the workers.
type echoClient struct {
	links []*echoLink
	next  atomic.Uint64
	batch int
}

// Pace implements trial.Submitter.
func (c *echoClient) Pace() trial.Pace { return trial.Pace{Callers: 16, Batch: 64} }

// Submit implements trial.Submitter.
func (c *echoClient) Submit(ctx context.Context, jobs []trial.Job) error {
	link := c.links[c.next.Add(1)%uint64(len(c.links))]
	back := make(chan struct{}, len(jobs))
	messages := 0
	for ; len(jobs) > 0; messages++ {
		n := min(c.batch, len(jobs))
		if err := link.send(&wrapperspb.BytesValue{Value: pack(jobs[:n])}, back); err != nil {
			return err
		}
		jobs = jobs[n:]
	}
	for range messages {
		select {
		case <-back:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Close implements trial.Submitter.
func (c *echoClient) Close() error {
	var errs []error
	for _, link := range c.links {
		errs = append(errs, link.stop())
		link.reading.Wait()
	}
	return errors.Join(errs...)
}

// echoLink is the stream to one worker. Messages come back in the order in which they went.
type echoLink struct {
	stream  grpc.ClientStream
	stop    func() error
	reading sync.WaitGroup

	mu      sync.Mutex
	sending sync.Mutex
	waiting []chan<- struct{}
}

func (l *echoLink) send(message *wrapperspb.BytesValue, back chan<- struct{}) error {
	l.sending.Lock()
	defer l.sending.Unlock()
	l.mu.Lock()
	l.waiting = append(l.waiting, back)
	l.mu.Unlock()
	return l.stream.SendMsg(message)
}

func (l *echoLink) read() {
	for {
		message := new(wrapperspb.BytesValue)
		if err := l.stream.RecvMsg(message); err != nil {
			return
		}
		l.mu.Lock()
		first := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.mu.Unlock()
		first <- struct{}{}
	}
}
