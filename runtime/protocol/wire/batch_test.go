package wire_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/protocol/wire"
)

func TestABatchFromAProducerMeansTheSame(t *testing.T) {
	frames := wire.EncodeFromProducer(true,
		protocol.Produced{Session: "s", Token: 3, Job: job},
		protocol.StoredAck{Session: "s", Token: 1, MessageID: "job-0"},
		protocol.Produced{Session: "s", Token: 4, Job: job},
		protocol.StoredAck{Session: "later", Token: 1, MessageID: "job-9"},
	)
	if len(frames) != 2 {
		t.Fatalf("%d frames for two sessions", len(frames))
	}
	var got []protocol.FromProducer
	for _, frame := range frames {
		messages, malformed := wire.DecodeFromProducer(carry(t, frame))
		if len(malformed) > 0 {
			t.Error(malformed)
		}
		got = append(got, messages...)
	}
	same(t, []protocol.FromProducer{
		protocol.StoredAck{Session: "s", Token: 1, MessageID: "job-0"},
		protocol.Produced{Session: "s", Token: 3, Job: job},
		protocol.Produced{Session: "s", Token: 4, Job: job},
		protocol.StoredAck{Session: "later", Token: 1, MessageID: "job-9"},
	}, got, nil)
}

func TestABatchToAProducerMeansTheSame(t *testing.T) {
	stored := func(token uint64) protocol.Stored {
		return protocol.Stored{Session: "s", Token: token, MessageID: fmt.Sprint("job-", token), StoreSeq: 8, Verdict: protocol.StoredNew}
	}
	refused := protocol.Refused{Session: "s", Token: 3, MessageID: "job-3", Code: protocol.RefusedInvalid, Reason: "no"}
	confirmed := protocol.DeliveryConfirmed{Session: "s", MessageID: "job-1", StoreSeq: 8}
	frames := wire.EncodeToProducer(true,
		stored(1), protocol.RequestNext{Session: "s", UpTo: 9}, confirmed, stored(2), protocol.RequestNext{Session: "s", UpTo: 12}, refused, stored(4))
	if len(frames) != 3 {
		t.Fatalf("%d frames around one refusal", len(frames))
	}
	var got []protocol.ToProducer
	for _, frame := range frames {
		messages, err := wire.DecodeToProducer(carry(t, frame))
		if err != nil {
			t.Error(err)
		}
		got = append(got, messages...)
	}
	same(t, []protocol.ToProducer{protocol.RequestNext{Session: "s", UpTo: 12}, stored(1), stored(2), confirmed, refused, stored(4)}, got, nil)
}

func TestLargeBatchesAreSplitInOrder(t *testing.T) {
	heavy := job
	heavy.Payload = make([]byte, 10_000)
	var messages []protocol.FromProducer
	for token := range uint64(1000) {
		messages = append(messages, protocol.Produced{Session: "s", Token: token + 1, Job: heavy})
	}
	next := uint64(1)
	for _, frame := range wire.EncodeFromProducer(true, messages...) {
		if size := proto.Size(frame); size > wire.MaxFrameBytes+1024 {
			t.Errorf("frame of %d bytes", size)
		}
		for _, m := range frame.GetBatch().GetProduced() {
			if m.GetToken() != next {
				t.Fatalf("token %d, want %d", m.GetToken(), next)
			}
			next++
		}
	}
	if next != 1001 {
		t.Errorf("up to token %d", next-1)
	}
}

// What breaks a limit is named, so that it can be refused, and spoils nothing else; a batch that breaks one is no message at all.
func TestABatchIsJudgedMessageByMessage(t *testing.T) {
	batch := func(b *pb.ProducerBatch) *pb.ProducerFrame {
		return &pb.ProducerFrame{Message: &pb.ProducerFrame_Batch{Batch: b}}
	}
	good := &pb.Produced{Token: 1, Job: &pb.Job{MessageId: "m", Payload: []byte("x")}}
	messages, malformed := wire.DecodeFromProducer(batch(&pb.ProducerBatch{
		Session:    "s",
		StoredAcks: []*pb.StoredAck{{Token: 2, MessageId: strings.Repeat("x", 257)}, {Token: 3, MessageId: "m"}},
		Produced:   []*pb.Produced{good, {Token: 4}, {Token: 5, Job: &pb.Job{MessageId: "n"}}},
	}))
	if len(messages) != 2 || len(malformed) != 3 {
		t.Fatalf("messages %v, malformed %v", messages, malformed)
	}
	for i, m := range malformed {
		if !errors.Is(m.Err, protocol.ErrInvalid) || (m.Submission != nil) != (i > 0) {
			t.Errorf("malformed %d: %+v", i, m)
		}
	}
	if s := malformed[2].Submission; s.Session != "s" || s.Token != 5 || s.Job.MessageID != "n" {
		t.Errorf("the submission is called %+v", s)
	}
	for name, frame := range map[string]*pb.ProducerFrame{
		"no session": batch(&pb.ProducerBatch{Produced: []*pb.Produced{good}}),
		"too many":   batch(&pb.ProducerBatch{Session: "s", Produced: make([]*pb.Produced, 10_001)}),
	} {
		if messages, malformed := wire.DecodeFromProducer(frame); len(messages) != 0 || len(malformed) != 1 {
			t.Errorf("%s: %v, %v", name, messages, malformed)
		}
	}
	for name, b := range map[string]*pb.GrantBatch{
		"no session":        {UpTo: 1},
		"token out of span": {Session: "s", UpTo: 1 << 63},
		"no verdict":        {Session: "s", Stored: []*pb.Stored{{Token: 1, MessageId: "m", StoreSeq: 1}}},
		"no id":             {Session: "s", DeliveryConfirmed: []*pb.DeliveryConfirmed{{StoreSeq: 1}}},
		"too many":          {Session: "s", Stored: make([]*pb.Stored, 10_001)},
	} {
		if got, err := wire.DecodeToProducer(&pb.GrantFrame{Message: &pb.GrantFrame_Batch{Batch: b}}); !errors.Is(err, protocol.ErrInvalid) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// Deliveries to one worker share a frame, and so do the words on what is taken over; nothing else changes its place.
func TestMessagesToAWorkerShareFrames(t *testing.T) {
	sequenced := func(seqs ...int64) protocol.SequencedMessage {
		m := protocol.SequencedMessage{BindingID: "b"}
		for _, seq := range seqs {
			m.Deliveries = append(m.Deliveries, protocol.Delivery{WorkerSeq: seq, StoreSeq: seq, Attempt: 1, Job: job})
		}
		return m
	}
	above := []int64{5, 7}
	var got []protocol.ToWorker
	for _, frame := range wire.EncodeToWorker(
		sequenced(1, 2), protocol.SettledAck{BindingID: "b", UpTo: 1, Above: above[:1]}, sequenced(3), protocol.SettledAck{BindingID: "b", UpTo: 2, Above: []int64{9}},
		protocol.HandBack{BindingID: "b", Count: 1}, sequenced(4), protocol.SequencedMessage{BindingID: "c", Deliveries: sequenced(1).Deliveries},
	) {
		message, err := wire.DecodeToWorker(carry(t, frame))
		if err != nil {
			t.Error(err)
		}
		got = append(got, message)
	}
	same(t, []protocol.ToWorker{
		sequenced(1, 2, 3), protocol.SettledAck{BindingID: "b", UpTo: 2, Above: []int64{5, 9}}, protocol.HandBack{BindingID: "b", Count: 1},
		sequenced(4), protocol.SequencedMessage{BindingID: "c", Deliveries: sequenced(1).Deliveries},
	}, got, nil)
	if above[1] != 7 {
		t.Error("the message of the caller has changed")
	}
}
