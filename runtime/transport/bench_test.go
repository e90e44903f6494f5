package transport_test

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/protocol/wire"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// BenchmarkWorkerStream is what a job costs between producer and worker over TLS: both ends, its delivery and its settlement. In "grpc" it goes
// as it does in the product; "bare" is what would be left without gRPC. The processor time counts: the other figure tells more about what else
// the machine does.
func BenchmarkWorkerStream(b *testing.B) {
	for name, connect := range map[string]func(*testing.B) (producer, worker end){"grpc": grpcEnds, "bare": bareEnds} {
		for _, together := range []int{8, 32} {
			for _, size := range []int{256, 4 << 10} {
				b.Run(fmt.Sprintf("%s/together=%d/bytes=%d", name, together, size), func(b *testing.B) {
					converse(b, connect, together, size)
				})
			}
		}
	}
}

// end is one end of a worker's stream, with frames of the schema.
type end struct {
	send    func(proto.Message) error
	receive func(proto.Message) error
}

// converse sends b.N jobs, so many together, and settles them, the producer two frames ahead of what is settled.
func converse(b *testing.B, connect func(*testing.B) (producer, worker end), together, size int) {
	b.Helper()
	message := protocol.SequencedMessage{BindingID: "binding", Deliveries: make([]protocol.Delivery, together)}
	ack := protocol.Ack{BindingRef: protocol.BindingRef{BindingID: "binding", Secret: "secret"}, Settlements: make([]protocol.Settlement, together)}
	for i := range together {
		id := fmt.Sprintf("bench/job-%06d", i)
		message.Deliveries[i] = protocol.Delivery{
			WorkerSeq: int64(i + 1), StoreSeq: int64(i + 1), Attempt: 1, Ticket: protocol.Ticket{1}, Job: protocol.Job{MessageID: id, Payload: make([]byte, size)},
		}
		ack.Settlements[i] = protocol.Settlement{WorkerSeq: int64(i + 1), MessageID: id, Attempt: 1, Outcome: protocol.Confirmed}
	}
	producer, worker := connect(b)
	frames := (b.N + together - 1) / together
	produced := make(chan error, 1)
	b.ReportAllocs()
	b.ResetTimer()
	before := transporttest.ProcessorTime(b)
	go func() { produced <- produce(producer, message, frames) }()
	if err := work(worker, ack, frames); err != nil {
		b.Fatal(err)
	}
	if err := <-produced; err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(transporttest.ProcessorTime(b)-before)/float64(b.N), "cpu-ns/op")
}

func produce(to end, message protocol.SequencedMessage, frames int) error {
	for sent := range frames + 2 {
		if sent < frames {
			for _, frame := range wire.EncodeToWorker(message) {
				if err := to.send(frame); err != nil {
					return err
				}
			}
		}
		if sent < 2 {
			continue
		}
		frame := new(pb.WorkerFrame)
		if err := to.receive(frame); err != nil {
			return err
		}
		if _, err := wire.DecodeFromWorker(frame); err != nil {
			return err
		}
	}
	return nil
}

func work(from end, ack protocol.Ack, frames int) error {
	for range frames {
		frame := new(pb.ControllerFrame)
		if err := from.receive(frame); err != nil {
			return err
		}
		if _, err := wire.DecodeToWorker(frame); err != nil {
			return err
		}
		for _, frame := range wire.EncodeFromWorker(ack) {
			if err := from.send(frame); err != nil {
				return err
			}
		}
	}
	return nil
}

// pulled is a producer that hands out its end of the one stream that it gets.
type pulled struct {
	pb.UnimplementedWorkPullingServer
	ends chan pb.WorkPulling_PullServer
}

func (s pulled) Pull(stream pb.WorkPulling_PullServer) error {
	s.ends <- stream
	<-stream.Context().Done()
	return nil
}

func grpcEnds(b *testing.B) (producer, worker end) {
	b.Helper()
	config, peer := benchPeer(b)
	server, service := transport.NewServer(config), pulled{ends: make(chan pb.WorkPulling_PullServer, 1)}
	pb.RegisterWorkPullingServer(server, service)
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
	peer.Address = listener.Addr().String()
	conn, err := peer.Connect()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	stream, err := pb.NewWorkPullingClient(conn).Pull(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	accepted := <-service.ends
	return end{func(m proto.Message) error { return accepted.SendMsg(m) }, func(m proto.Message) error { return accepted.RecvMsg(m) }},
		end{func(m proto.Message) error { return stream.SendMsg(m) }, func(m proto.Message) error { return stream.RecvMsg(m) }}
}

// bareEnds are those of a TLS connection, on which each frame follows its length and no goroutine stands between a caller and the connection.
func bareEnds(b *testing.B) (producer, worker end) {
	b.Helper()
	config, peer := benchPeer(b)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_ = conn.(*tls.Conn).HandshakeContext(b.Context()) // else the other end says what is wrong
			accepted <- conn
		}
		close(accepted)
	}()
	conn, err := (&tls.Dialer{Config: peer.TLS}).DialContext(b.Context(), "tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	other, ok := <-accepted
	if !ok {
		b.Fatal("no connection was accepted")
	}
	b.Cleanup(func() { other.Close() })
	return bareEnd(other), bareEnd(conn)
}

func bareEnd(conn net.Conn) end {
	const prefix = 4 // bytes that say how long a frame is
	var out, in []byte
	reader := bufio.NewReaderSize(conn, 16<<10)
	send := func(m proto.Message) (err error) {
		if out, err = (proto.MarshalOptions{}).MarshalAppend(append(out[:0], 0, 0, 0, 0), m); err != nil {
			return err
		}
		binary.BigEndian.PutUint32(out, uint32(len(out)-prefix))
		_, err = conn.Write(out)
		return err
	}
	receive := func(m proto.Message) error {
		var head [prefix]byte
		if _, err := io.ReadFull(reader, head[:]); err != nil {
			return err
		}
		if n := int(binary.BigEndian.Uint32(head[:])); n <= cap(in) {
			in = in[:n]
		} else {
			in = make([]byte, n)
		}
		if _, err := io.ReadFull(reader, in); err != nil {
			return err
		}
		return proto.Unmarshal(in, m)
	}
	return end{send, receive}
}

// benchPeer returns what a server is configured with, and a peer that knows it but for its address.
func benchPeer(b *testing.B) (*tls.Config, transport.Peer) {
	b.Helper()
	authority := transporttest.NewAuthority(b)
	certificate, err := transport.NewCertificate(authority.Issue(b, "server"))
	if err != nil {
		b.Fatal(err)
	}
	return transport.ServerTLS(certificate), transport.Peer{
		TLS: transport.ClientTLS(authority.CAFile(), "server"), TokenFile: transporttest.TokenFile(b, "worker"),
	}
}
