package transport_test

import (
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/protocol/wire"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// BenchmarkWorkerStream is what a job costs between producer and worker over TLS, in frames of 32: both ends, its delivery and its settlement.
// The processor time counts: the other figure tells more about what else the machine does.
func BenchmarkWorkerStream(b *testing.B) {
	const together = 32
	for _, size := range []int{256, 4 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			message := protocol.SequencedMessage{BindingID: "binding", Deliveries: make([]protocol.Delivery, together)}
			ack := protocol.Ack{BindingRef: protocol.BindingRef{BindingID: "binding", Secret: "secret"}, Settlements: make([]protocol.Settlement, together)}
			for i := range together {
				id := fmt.Sprintf("bench/job-%06d", i)
				message.Deliveries[i] = protocol.Delivery{
					WorkerSeq: int64(i + 1), StoreSeq: int64(i + 1), Attempt: 1, Ticket: protocol.Ticket{1}, Job: protocol.Job{MessageID: id, Payload: make([]byte, size)},
				}
				ack.Settlements[i] = protocol.Settlement{WorkerSeq: int64(i + 1), MessageID: id, Attempt: 1, Outcome: protocol.Confirmed}
			}
			frames := (b.N + together - 1) / together
			stream := pullFrom(b, &frameSource{message: message, frames: frames})
			b.ReportAllocs()
			b.ResetTimer()
			before := transporttest.ProcessorTime(b)
			if err := stream.Send(protocol.Heartbeat{BindingRef: ack.BindingRef}); err != nil {
				b.Fatal(err)
			}
			for range frames {
				if _, err := stream.Recv(); err != nil {
					b.Fatal(err)
				}
				if err := stream.Send(ack); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(transporttest.ProcessorTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// frameSource sends one message again and again, two ahead of what is settled.
type frameSource struct {
	pb.UnimplementedWorkPullingServer
	message protocol.SequencedMessage
	frames  int
}

func (s *frameSource) Pull(stream pb.WorkPulling_PullServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	for sent := range s.frames {
		for _, frame := range wire.EncodeToWorker(s.message) {
			if err := stream.Send(frame); err != nil {
				return err
			}
		}
		if sent < 2 {
			continue
		}
		frame, err := stream.Recv()
		if err != nil {
			return err
		}
		if _, err := wire.DecodeFromWorker(frame); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

func pullFrom(b *testing.B, source pb.WorkPullingServer) *transport.WorkerStream {
	b.Helper()
	authority := transporttest.NewAuthority(b)
	certificate, err := transport.NewCertificate(authority.Issue(b, "server"))
	if err != nil {
		b.Fatal(err)
	}
	server := transport.NewServer(transport.ServerTLS(certificate))
	pb.RegisterWorkPullingServer(server, source)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(listener) })
	b.Cleanup(func() {
		server.Stop()
		running.Wait()
	})
	peer := transport.Peer{Address: listener.Addr().String(), TLS: transport.ClientTLS(authority.CAFile(), "server"), TokenFile: transporttest.TokenFile(b, "worker")}
	stream, err := peer.DialWorker(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(stream.Close)
	return stream
}
