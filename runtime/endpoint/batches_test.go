package endpoint_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/protocol/wire"
	"github.com/workpulling/workpulling/runtime/transport"
)

// wiretap sees the frames of producer streams at the server.
type wiretap struct {
	// old makes the producer one that knows of no batches: it announces none.
	old                bool
	jobs, up, down     atomic.Int64 // jobs that came, and frames
	batchUp, batchDown atomic.Int64 // frames that are batches
}

func (w *wiretap) option() grpc.ServerOption {
	return grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return handler(srv, &tapped{stream, w})
	})
}

type tapped struct {
	grpc.ServerStream
	tap *wiretap
}

func (s *tapped) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if frame, ok := m.(*pb.ProducerFrame); ok && err == nil {
		s.tap.up.Add(1)
		s.tap.jobs.Add(int64(len(frame.GetBatch().GetProduced())))
		if frame.GetProduced() != nil {
			s.tap.jobs.Add(1)
		}
		if frame.GetBatch() != nil {
			s.tap.batchUp.Add(1)
		}
	}
	return err
}

func (s *tapped) SendMsg(m any) error {
	if frame, ok := m.(*pb.GrantFrame); ok {
		s.tap.down.Add(1)
		if frame.GetBatch() != nil {
			s.tap.batchDown.Add(1)
		}
		if grant := frame.GetRequestNext(); grant != nil && s.tap.old {
			grant.Batches = false
		}
	}
	return s.ServerStream.SendMsg(m)
}

// client runs a Client of the flow for as long as the test.
func client(t *testing.T, f *flow) *endpoint.Client {
	t.Helper()
	peer := f.peer(t, "user:alice")
	c := endpoint.NewClient(endpoint.ClientOptions{Dial: endpoint.DialProducerPeer(func() transport.Peer { return peer })})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return c
}

// Between two that know of batches a frame carries many jobs up, and many answers down.
func TestJobsShareFrames(t *testing.T) {
	const jobs = 2000
	f, tap := newFlow(t, memoryQueue(t)), &wiretap{}
	f.server = []grpc.ServerOption{tap.option()}
	f.start(t)
	postAll(t, client(t, f), jobs)
	if got := tap.jobs.Load(); got < jobs {
		t.Errorf("%d of %d jobs came by", got, jobs)
	}
	if up, down := tap.up.Load(), tap.down.Load(); up > jobs || down > jobs {
		t.Errorf("%d frames up and %d down for %d jobs", up, down, jobs)
	}
	if tap.batchUp.Load() == 0 || tap.batchDown.Load() == 0 {
		t.Errorf("%d batches up, %d down", tap.batchUp.Load(), tap.batchDown.Load())
	}
}

func postAll(t *testing.T, c *endpoint.Client, jobs int) {
	t.Helper()
	var answered replies
	post(c, &answered, 0, jobs)
	eventually(t, "all answers", func() bool { return answered.stored.Load() == int64(jobs) })
	if n := answered.failed.Load(); n != 0 {
		t.Errorf("%d jobs refused", n)
	}
}

// A producer that announces no batches gets none.
func TestAnOldProducerGetsNoBatches(t *testing.T) {
	const jobs = 300
	f, tap := newFlow(t, memoryQueue(t)), &wiretap{old: true}
	f.server = []grpc.ServerOption{tap.option()}
	f.start(t)
	postAll(t, client(t, f), jobs)
	if got := tap.batchUp.Load() + tap.batchDown.Load(); got != 0 {
		t.Errorf("%d batches", got)
	}
	if got := tap.jobs.Load(); got < jobs {
		t.Errorf("%d of %d jobs came by", got, jobs)
	}
}

// An endpoint that sends no batch gets none, though it was told that it might.
func TestAnOldEndpointGetsNoBatches(t *testing.T) {
	const jobs = 200
	f := newFlow(t, memoryQueue(t))
	f.start(t)
	conn, err := f.peer(t, "user:alice").Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := pb.NewWorkPullingClient(conn).Produce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	send := func(message protocol.FromProducer) {
		if err := stream.Send(wire.EncodeFromProducer(false, message)[0]); err != nil {
			t.Fatal(err)
		}
	}
	var used uint64
	announced := false
	for stored := map[string]bool{}; len(stored) < jobs; {
		frame, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if frame.GetBatch() != nil {
			t.Fatal("a batch for an endpoint that does not know them")
		}
		announced = announced || frame.GetRequestNext().GetBatches()
		if m := frame.GetStored(); m != nil {
			stored[m.GetMessageId()] = true
			send(protocol.StoredAck{Session: m.GetSession(), Token: m.GetToken(), MessageID: m.GetMessageId()})
		}
		if m := frame.GetRequestNext(); m != nil {
			for used < min(m.GetUpTo(), jobs) {
				used++
				send(protocol.Produced{Session: m.GetSession(), Token: used, Job: jobNamed(fmt.Sprint("job-", used))})
			}
		}
	}
	if !announced {
		t.Error("batches are not announced")
	}
}

// B-005, B-012: a job that breaks a limit is refused for itself; the others of its frame are stored.
func TestABrokenJobSpoilsNoBatch(t *testing.T) {
	f := newFlow(t, memoryQueue(t))
	f.start(t)
	stream, err := f.peer(t, "user:alice").DialProducer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	grant := receive[protocol.RequestNext](t, stream)
	produced := func(token uint64, job protocol.Job) protocol.FromProducer {
		return protocol.Produced{Session: grant.Session, Token: token, Job: job}
	}
	if err := stream.Send(produced(1, jobNamed("first")), produced(2, protocol.Job{MessageID: "empty"}), produced(3, jobNamed("last"))); err != nil {
		t.Fatal(err)
	}
	stored, refused := map[string]bool{}, map[uint64]protocol.RefusalCode{}
	for len(stored) < 2 || len(refused) < 1 {
		messages, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, message := range messages {
			switch m := message.(type) {
			case protocol.Stored:
				stored[m.MessageID] = true
			case protocol.Refused:
				refused[m.Token] = m.Code
			}
		}
	}
	if !stored["first"] || !stored["last"] || refused[2] != protocol.RefusedInvalid || len(refused) != 1 {
		t.Errorf("stored %v, refused %v", stored, refused)
	}
}
