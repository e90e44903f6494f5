package wire_test

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/protocol/wire"
)

func deliveriesOf(jobs ...protocol.Job) *pb.ControllerFrame {
	m := protocol.SequencedMessage{BindingID: "b"}
	for i, job := range jobs {
		m.Deliveries = append(m.Deliveries, protocol.Delivery{
			WorkerSeq: int64(i + 1), StoreSeq: int64(1000 * i), Attempt: i, Redelivered: i%2 == 0, Ticket: protocol.Ticket{byte(i)}, Job: job,
		})
	}
	return wire.EncodeToWorker(m)[0]
}

// codecFrames are frames that the codec writes by hand, and some that it does not.
func codecFrames() map[string]*pb.ControllerFrame {
	large := protocol.Job{MessageID: "large", Headers: map[string]string{"a": "b", "empty": "", "c": "d"}, Payload: bytes.Repeat([]byte("x"), 5000)}
	many := make([]protocol.Job, 20)
	for i := range many {
		many[i] = []protocol.Job{job, large}[i%2]
	}
	frames := map[string]*pb.ControllerFrame{
		"many":             deliveriesOf(many...),
		"nothing":          {},
		"no deliveries":    {Message: &pb.ControllerFrame_Sequenced{Sequenced: &pb.SequencedMessage{}}},
		"empty delivery":   {Message: &pb.ControllerFrame_Sequenced{Sequenced: &pb.SequencedMessage{BindingId: "b", Deliveries: []*pb.Delivery{{}}}}},
		"empty job":        {Message: &pb.ControllerFrame_Sequenced{Sequenced: &pb.SequencedMessage{Deliveries: []*pb.Delivery{{Job: &pb.Job{}}}}}},
		"negative numbers": {Message: &pb.ControllerFrame_Sequenced{Sequenced: &pb.SequencedMessage{Deliveries: []*pb.Delivery{{WorkerSeq: -1, Attempt: -7}}}}},
		"small":            deliveriesOf(job),
		"mixed":            deliveriesOf(job, large, large, job, protocol.Job{MessageID: "m", Payload: []byte("x")}),
	}
	for i, message := range toWorker {
		frames[fmt.Sprintf("%d %T", i, message)] = wire.EncodeToWorker(message)[0]
	}
	return frames
}

// What the codec writes is what the generated code reads, and the other way round.
func TestCodecWritesAndReadsTheSameBytes(t *testing.T) {
	generated := encoding.GetCodecV2(grpcproto.Name)
	for name, frame := range codecFrames() {
		for how, codecs := range map[string][2]encoding.CodecV2{
			"both": {wire.Codec{}, wire.Codec{}}, "writes": {wire.Codec{}, generated}, "reads": {generated, wire.Codec{}},
		} {
			data, err := codecs[0].Marshal(frame)
			if err != nil {
				t.Fatal(err)
			}
			if want := proto.Size(frame); data.Len() != want {
				t.Errorf("%s, %s: %d bytes, want %d", name, how, data.Len(), want)
			}
			got := &pb.ControllerFrame{Message: &pb.ControllerFrame_HandBack{}} // what was there before is gone
			if err := codecs[1].Unmarshal(data, got); err != nil {
				t.Fatalf("%s, %s: %v", name, how, err)
			}
			if !proto.Equal(frame, got) {
				t.Errorf("%s, %s: got %v, want %v", name, how, got, frame)
			}
		}
	}
}

// A large payload is written from where it is, and on the way in it stays where it came.
func TestCodecCopiesNoLargePayload(t *testing.T) {
	large := protocol.Job{MessageID: "large", Payload: make([]byte, 4<<10)}
	data, err := wire.Codec{}.Marshal(deliveriesOf(job, large, job))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, piece := range data {
		found = found || &piece.ReadOnlyData()[0] == &large.Payload[0]
	}
	if !found {
		t.Error("the payload was copied")
	}
	many := make([]protocol.Job, 40)
	for i := range many {
		many[i] = large
	}
	data, err = wire.Codec{}.Marshal(deliveriesOf(many...))
	if err != nil {
		t.Fatal(err)
	}
	raw := mem.BufferSlice{mem.SliceBuffer(data.Materialize())}
	if n := testing.AllocsPerRun(10, func() {
		if err := (wire.Codec{}).Unmarshal(raw, &pb.ControllerFrame{}); err != nil {
			t.Error(err)
		}
	}); n > 1.5*float64(len(many)) {
		t.Errorf("%.0f allocations for %d deliveries", n, len(many))
	}
}

// FuzzCodec compares the codec with the generated code for arbitrary bytes, alone and before deliveries that make the frame a large one.
func FuzzCodec(f *testing.F) {
	for _, frame := range codecFrames() {
		raw, err := proto.Marshal(frame)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
		f.Add(append(raw, raw...))
		f.Add(raw[:len(raw)/2])
	}
	large, err := proto.Marshal(codecFrames()["many"])
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		compareCodecs(t, raw)
		compareCodecs(t, append(bytes.Clone(raw), large...))
		compareCodecs(t, append(bytes.Clone(large), raw...))
		compareCodecs(t, inside(raw))
	})
}

// inside puts bytes into the message of a large frame.
func inside(raw []byte) []byte {
	body := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), raw)
	filler := &pb.SequencedMessage{BindingId: "b", Deliveries: []*pb.Delivery{{WorkerSeq: 1, Job: &pb.Job{MessageId: "m", Payload: make([]byte, 40<<10)}}}}
	rest, err := proto.Marshal(filler)
	if err != nil {
		panic(err)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), append(body, rest...))
}

func compareCodecs(t *testing.T, raw []byte) {
	t.Helper()
	want, got := new(pb.ControllerFrame), new(pb.ControllerFrame)
	wantErr := proto.Unmarshal(raw, want)
	gotErr := wire.Codec{}.Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, got)
	if (wantErr == nil) != (gotErr == nil) {
		t.Fatalf("error %v, want %v", gotErr, wantErr)
	}
	if wantErr != nil {
		return
	}
	if !proto.Equal(want, got) {
		t.Fatalf("got %v, want %v", got, want)
	}
	data, err := wire.Codec{}.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	again := new(pb.ControllerFrame)
	if err := proto.Unmarshal(data.Materialize(), again); err != nil {
		t.Fatal(err)
	}
	if m := want.GetSequenced(); m != nil && !proto.Equal(withoutUnknown(want), withoutUnknown(again)) {
		t.Fatalf("written as %v, want %v", again, want)
	}
}

// withoutUnknown drops the fields that this version does not know: a frame that is read is never passed on.
func withoutUnknown(frame *pb.ControllerFrame) *pb.ControllerFrame {
	frame.ProtoReflect().SetUnknown(nil)
	m := frame.GetSequenced()
	m.ProtoReflect().SetUnknown(nil)
	for _, d := range m.GetDeliveries() {
		d.ProtoReflect().SetUnknown(nil)
		if d.GetJob() != nil {
			d.GetJob().ProtoReflect().SetUnknown(nil)
		}
	}
	return frame
}
