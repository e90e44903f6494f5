package wire_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/protocol/wire"
)

var (
	ref = protocol.BindingRef{BindingID: "binding", Secret: "secret"}
	job = protocol.Job{MessageID: "job-1", Headers: map[string]string{"content-type": "text/plain"}, Payload: []byte("payload")}
)

var fromWorker = []protocol.FromWorker{
	protocol.RegisterConsumer{Version: 1, Nonce: "n", Incarnation: protocol.Incarnation{PodUID: "uid", BootNonce: "boot"}, Window: 50},
	protocol.RegisterConsumer{Version: 1, Nonce: "n", Incarnation: protocol.Incarnation{PodUID: "uid", BootNonce: "boot"}, Window: 50, Epoch: 9, Queue: "q", Claims: []protocol.Claim{
		{StoreSeq: 7, MessageID: "job-1", Attempt: 2, Ticket: protocol.Ticket{1, 2, 3}, State: protocol.ClaimRunning},
		{StoreSeq: 9, MessageID: "job-2", Attempt: 1, Ticket: protocol.Ticket{15: 9}, State: protocol.ClaimConfirmed, Reason: "done"},
		{StoreSeq: 11, MessageID: "job-3", Attempt: 1, Ticket: protocol.Ticket{4}, State: protocol.ClaimLost},
	}},
	protocol.Request{BindingRef: ref, ConfirmedSeq: 3, RequestUpTo: 53, StartedSeq: 4, ViaTimeout: true},
	protocol.Ack{BindingRef: ref, StartedSeq: 9, Settlements: []protocol.Settlement{
		{WorkerSeq: 4, MessageID: "job-1", Attempt: 1, Outcome: protocol.Confirmed},
		{WorkerSeq: 6, MessageID: "job-2", Attempt: 2, Outcome: protocol.Delayed, Reason: "busy", RetryAfter: 1500 * time.Millisecond},
		{WorkerSeq: 7, Outcome: protocol.Inadmissible, Reason: "no id"},
	}},
	protocol.Drain{BindingRef: ref},
	protocol.Heartbeat{BindingRef: ref, StartedSeq: 9},
}

var toWorker = []protocol.ToWorker{
	protocol.RegistrationAck{
		Session: "s", Nonce: "n", BindingID: "b", Secret: "x", NextSeq: 1, Window: 50, Heartbeat: 2 * time.Second, Deadline: 10 * time.Second,
	},
	protocol.RegistrationAck{
		Session: "s", Nonce: "n", BindingID: "b", Secret: "x", NextSeq: 3, Window: 50, Heartbeat: 2 * time.Second, Deadline: 10 * time.Second,
		Epoch: math.MaxUint64, Queue: "q", Adopted: []protocol.Adopted{
			{WorkerSeq: 3, StoreSeq: 7, MessageID: "job-1", Attempt: 2, Ticket: protocol.Ticket{1, 2, 3}},
			{WorkerSeq: 5, StoreSeq: 9, MessageID: "job-2", Attempt: 1},
		},
	},
	protocol.ClaimsEnded{BindingID: "b", Ended: []protocol.ClaimRef{{MessageID: "job-1", StoreSeq: 7}, {MessageID: "job-2", StoreSeq: 9}}},
	protocol.RegistrationRefused{Nonce: "n", Code: protocol.RefusedIdentity, Reason: "no", RetryAfter: time.Second},
	protocol.SequencedMessage{BindingID: "b", Deliveries: []protocol.Delivery{{WorkerSeq: 1, StoreSeq: 7, Attempt: 2, Redelivered: true, Ticket: protocol.Ticket{8, 9}, Job: job}}},
	protocol.SettledAck{BindingID: "b", UpTo: 4, Above: []int64{6, 8}},
	protocol.HandBack{BindingID: "b", Count: 3},
	protocol.Heartbeat{BindingRef: protocol.BindingRef{BindingID: "b"}},
	protocol.BindingEnded{BindingID: "b", Code: protocol.RefusedViolation, Reason: "demand", RetryAfter: time.Second},
}

var fromProducer = []protocol.FromProducer{
	protocol.Produced{Session: "s", Token: 3, Job: job},
	protocol.StoredAck{Session: "s", Token: 3, MessageID: "job-1"},
}

var toProducer = []protocol.ToProducer{
	protocol.RequestNext{Session: "s", UpTo: 12},
	protocol.Stored{Session: "s", Token: 3, MessageID: "job-1", StoreSeq: 8, Verdict: protocol.AlreadyConfirmed},
	protocol.Refused{Session: "s", Token: 3, MessageID: "job-1", Code: protocol.RefusedSuspended, Reason: "later", RetryAfter: time.Second},
	protocol.DeliveryConfirmed{Session: "s", MessageID: "job-1", StoreSeq: 8},
}

// carry sends a frame over the wire.
func carry[M proto.Message](t *testing.T, frame M) M {
	t.Helper()
	raw, err := proto.Marshal(frame)
	if err != nil {
		t.Fatal(err)
	}
	out := frame.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(raw, out); err != nil {
		t.Fatal(err)
	}
	return out.(M)
}

func same(t *testing.T, want, got any, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%T: %v", want, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%T changed on the wire (-want +got):\n%s", want, diff)
	}
}

func TestEveryMessageSurvivesTheWire(t *testing.T) {
	for _, message := range fromWorker {
		got, err := wire.DecodeFromWorker(carry(t, wire.EncodeFromWorker(message)[0]))
		same(t, message, got, err)
	}
	for _, message := range toWorker {
		got, err := wire.DecodeToWorker(carry(t, wire.EncodeToWorker(message)[0]))
		same(t, message, got, err)
	}
	for _, message := range fromProducer {
		got, malformed := wire.DecodeFromProducer(carry(t, wire.EncodeFromProducer(false, message)[0]))
		if len(malformed) > 0 {
			t.Errorf("%T: %v", message, malformed)
		}
		same(t, []protocol.FromProducer{message}, got, nil)
	}
	for _, message := range toProducer {
		got, err := wire.DecodeToProducer(carry(t, wire.EncodeToProducer(false, message)[0]))
		same(t, []protocol.ToProducer{message}, got, err)
	}
}

// Demand is judged by the machine, which answers it: the wire carries any number (B-102, B-103).
func TestIllegalDemandReachesTheMachine(t *testing.T) {
	for _, message := range []protocol.FromWorker{
		protocol.Request{BindingRef: ref, ConfirmedSeq: -1, RequestUpTo: math.MaxInt64},
		protocol.Request{BindingRef: ref, ConfirmedSeq: math.MaxInt64, RequestUpTo: math.MinInt64},
		protocol.RegisterConsumer{Version: 9, Nonce: "n", Incarnation: protocol.Incarnation{PodUID: "u", BootNonce: "b"}, Window: 10_001},
	} {
		got, err := wire.DecodeFromWorker(carry(t, wire.EncodeFromWorker(message)[0]))
		same(t, message, got, err)
	}
}

func TestBrokenFramesAreRefused(t *testing.T) {
	long := strings.Repeat("x", 257)
	settle := func(edit func(*pb.Settlement)) *pb.WorkerFrame {
		s := &pb.Settlement{WorkerSeq: 1, MessageId: "m", Attempt: 1, Outcome: pb.Outcome_OUTCOME_CONFIRMED}
		edit(s)
		return &pb.WorkerFrame{Message: &pb.WorkerFrame_Ack{Ack: &pb.Ack{BindingId: "b", Secret: "s", Settlements: []*pb.Settlement{s}}}}
	}
	claim := func(edit func(*pb.Claim)) *pb.WorkerFrame {
		c := &pb.Claim{StoreSeq: 1, MessageId: "m", Attempt: 1, Ticket: make([]byte, 16), State: pb.ClaimState_CLAIM_STATE_RUNNING}
		c.Ticket[0] = 1
		edit(c)
		return &pb.WorkerFrame{Message: &pb.WorkerFrame_Register{Register: &pb.RegisterConsumer{
			Version: 1, Nonce: "n", PodUid: "u", BootNonce: "b", Window: 1, Claims: []*pb.Claim{c},
		}}}
	}
	if _, err := wire.DecodeFromWorker(claim(func(*pb.Claim) {})); err != nil {
		t.Errorf("the claim that the broken ones are made of: %v", err)
	}
	for name, frame := range map[string]*pb.WorkerFrame{
		"claim without ticket":    claim(func(c *pb.Claim) { c.Ticket = nil }),
		"claim with short ticket": claim(func(c *pb.Claim) { c.Ticket = c.Ticket[:15] }),
		"claim with long ticket":  claim(func(c *pb.Claim) { c.Ticket = append(c.Ticket, 0) }),
		"claim with zero ticket":  claim(func(c *pb.Claim) { c.Ticket = make([]byte, 16) }),
		"claim of sequence 0":     claim(func(c *pb.Claim) { c.StoreSeq = 0 }),
		"claim of attempt 0":      claim(func(c *pb.Claim) { c.Attempt = 0 }),
		"claim in no state":       claim(func(c *pb.Claim) { c.State = 0 }),
		"claim in an odd state":   claim(func(c *pb.Claim) { c.State = 9 }),
		"claim of a long id":      claim(func(c *pb.Claim) { c.MessageId = long }),
		"empty claim":             {Message: &pb.WorkerFrame_Register{Register: &pb.RegisterConsumer{Nonce: "n", PodUid: "u", BootNonce: "b", Claims: []*pb.Claim{nil}}}},
		"too many claims":         {Message: &pb.WorkerFrame_Register{Register: &pb.RegisterConsumer{Nonce: "n", PodUid: "u", BootNonce: "b", Claims: make([]*pb.Claim, protocol.MaxClaims+1)}}},
		"nil":                     nil,
		"empty":                   {},
		"empty member":            {Message: &pb.WorkerFrame_Ack{}},
		"no nonce":                {Message: &pb.WorkerFrame_Register{Register: &pb.RegisterConsumer{PodUid: "u", BootNonce: "b"}}},
		"long nonce":              {Message: &pb.WorkerFrame_Register{Register: &pb.RegisterConsumer{Nonce: long, PodUid: "u", BootNonce: "b"}}},
		"control character":       {Message: &pb.WorkerFrame_Drain{Drain: &pb.Drain{BindingId: "a\x00b", Secret: "s"}}},
		"no secret":               {Message: &pb.WorkerFrame_Request{Request: &pb.Request{BindingId: "b"}}},
		"negative started":        {Message: &pb.WorkerFrame_Heartbeat{Heartbeat: &pb.Heartbeat{BindingId: "b", Secret: "s", StartedSeq: -1}}},
		"sequence 0":              settle(func(s *pb.Settlement) { s.WorkerSeq = 0 }),
		"sequence -1":             settle(func(s *pb.Settlement) { s.WorkerSeq = -1 }),
		"sequence MaxInt64":       settle(func(s *pb.Settlement) { s.WorkerSeq = math.MaxInt64 }),
		"attempt 0":               settle(func(s *pb.Settlement) { s.Attempt = 0 }),
		"unknown outcome":         settle(func(s *pb.Settlement) { s.Outcome = 99 }),
		"no outcome":              settle(func(s *pb.Settlement) { s.Outcome = 0 }),
		"long message id":         settle(func(s *pb.Settlement) { s.MessageId = long }),
		"inadmissible with an id": settle(func(s *pb.Settlement) { s.Outcome, s.Attempt = pb.Outcome_OUTCOME_INADMISSIBLE, 0 }),
		"inadmissible attempt":    settle(func(s *pb.Settlement) { s.Outcome, s.MessageId = pb.Outcome_OUTCOME_INADMISSIBLE, "" }),
		"negative retry-after":    settle(func(s *pb.Settlement) { s.RetryAfterMilliseconds = -1 }),
		"too many settlements":    {Message: &pb.WorkerFrame_Ack{Ack: &pb.Ack{BindingId: "b", Secret: "s", Settlements: make([]*pb.Settlement, 10_001)}}},
	} {
		if got, err := wire.DecodeFromWorker(frame); !errors.Is(err, protocol.ErrInvalid) {
			t.Errorf("%s: got %v, %v, want ErrInvalid", name, got, err)
		}
	}
	for name, frame := range map[string]*pb.ControllerFrame{
		"nil":                nil,
		"window 0":           {Message: &pb.ControllerFrame_RegistrationAck{RegistrationAck: &pb.RegistrationAck{Session: "s", Nonce: "n", BindingId: "b", Secret: "x", NextSeq: 1, HeartbeatMilliseconds: 1, DeadlineMilliseconds: 9}}},
		"epoch of no queue":  ackWith(&pb.RegistrationAck{Epoch: 1}),
		"queue of no epoch":  ackWith(&pb.RegistrationAck{Queue: "q"}),
		"adopted sequence 0": ackWith(&pb.RegistrationAck{Adopted: []*pb.Adopted{{StoreSeq: 1, MessageId: "m", Attempt: 1}}}),
		"adopted twice": ackWith(&pb.RegistrationAck{Adopted: []*pb.Adopted{
			{WorkerSeq: 1, StoreSeq: 1, MessageId: "m", Attempt: 1}, {WorkerSeq: 1, StoreSeq: 2, MessageId: "n", Attempt: 1},
		}}),
		"adopted too many": ackWith(&pb.RegistrationAck{Adopted: make([]*pb.Adopted, protocol.MaxClaims+1)}),
		"ended sequence 0": {Message: &pb.ControllerFrame_ClaimsEnded{ClaimsEnded: &pb.ClaimsEnded{BindingId: "b", Ended: []*pb.ClaimRef{{MessageId: "m"}}}}},
		"ended too many":   {Message: &pb.ControllerFrame_ClaimsEnded{ClaimsEnded: &pb.ClaimsEnded{BindingId: "b", Ended: make([]*pb.ClaimRef, 10_001)}}},
		"ended nowhere":    {Message: &pb.ControllerFrame_ClaimsEnded{ClaimsEnded: &pb.ClaimsEnded{}}},
		"count 0":          {Message: &pb.ControllerFrame_HandBack{HandBack: &pb.HandBack{BindingId: "b"}}},
		"settled -1":       {Message: &pb.ControllerFrame_Settled{Settled: &pb.SettledAck{BindingId: "b", UpTo: -1}}},
	} {
		if got, err := wire.DecodeToWorker(frame); !errors.Is(err, protocol.ErrInvalid) {
			t.Errorf("%s: got %v, %v, want ErrInvalid", name, got, err)
		}
	}
	for name, frame := range map[string]*pb.ProducerFrame{
		"nil":     nil,
		"token 0": {Message: &pb.ProducerFrame_Produced{Produced: &pb.Produced{Session: "s", Job: &pb.Job{MessageId: "m", Payload: []byte("x")}}}},
		"no id":   {Message: &pb.ProducerFrame_StoredAck{StoredAck: &pb.StoredAck{Session: "s", Token: 1}}},
	} {
		if got, malformed := wire.DecodeFromProducer(frame); len(got) != 0 || len(malformed) != 1 || !errors.Is(malformed[0].Err, protocol.ErrInvalid) {
			t.Errorf("%s: got %v, %v, want one error that is ErrInvalid", name, got, malformed)
		}
	}
}

// ackWith completes an acknowledgement that is right but for what it came with.
func ackWith(m *pb.RegistrationAck) *pb.ControllerFrame {
	m.Session, m.Nonce, m.BindingId, m.Secret, m.NextSeq, m.Window = "s", "n", "b", "x", 1, 1
	m.HeartbeatMilliseconds, m.DeadlineMilliseconds = 1, 9
	return &pb.ControllerFrame{Message: &pb.ControllerFrame_RegistrationAck{RegistrationAck: m}}
}

// A registration with all the claims that may be in it, and its answer, fit into one frame each.
func TestTheMostClaimsFit(t *testing.T) {
	id := strings.Repeat("m", protocol.MaxIDBytes)
	m := protocol.RegisterConsumer{Version: 1, Nonce: id, Incarnation: protocol.Incarnation{PodUID: id, BootNonce: id}, Window: 10_000}
	answer := protocol.RegistrationAck{
		Session: id, Nonce: id, BindingID: id, Secret: id, NextSeq: 1, Window: 1, Heartbeat: time.Second, Deadline: time.Minute, Epoch: math.MaxUint64, Queue: id,
	}
	ended := protocol.ClaimsEnded{BindingID: "b"}
	for i := range int64(protocol.MaxClaims) {
		ticket := protocol.Ticket{15: 1}
		m.Claims = append(m.Claims, protocol.Claim{
			StoreSeq: protocol.MaxSequence, MessageID: id, Attempt: math.MaxInt32, Ticket: ticket, State: protocol.ClaimLost,
			Reason: strings.Repeat("r", protocol.MaxClaimReasonBytes),
		})
		answer.Adopted = append(answer.Adopted, protocol.Adopted{
			WorkerSeq: protocol.MaxSequence - protocol.MaxClaims + i, StoreSeq: protocol.MaxSequence, MessageID: id, Attempt: math.MaxInt32, Ticket: ticket,
		})
		ended.Ended = append(ended.Ended, protocol.ClaimRef{MessageID: id, StoreSeq: i + 1})
	}
	frames := wire.EncodeFromWorker(m)
	if size := proto.Size(frames[0]); len(frames) != 1 || size > wire.MaxMessageBytes {
		t.Errorf("%d frames, the first of %d bytes, the limit is %d", len(frames), size, wire.MaxMessageBytes)
	}
	got, err := wire.DecodeFromWorker(frames[0])
	same(t, m, got, err)
	answers := wire.EncodeToWorker(answer)
	if size := proto.Size(answers[0]); len(answers) != 1 || size > wire.MaxMessageBytes {
		t.Errorf("%d frames, the first of %d bytes, the limit is %d", len(answers), size, wire.MaxMessageBytes)
	}
	back, err := wire.DecodeToWorker(answers[0])
	same(t, answer, back, err)
	count := 0
	for _, frame := range wire.EncodeToWorker(ended) {
		message, err := wire.DecodeToWorker(frame)
		if err != nil {
			t.Fatal(err)
		}
		count += len(message.(protocol.ClaimsEnded).Ended)
		if size := proto.Size(frame); size > wire.MaxFrameBytes+1024 {
			t.Errorf("a frame of %d bytes", size)
		}
	}
	if count != protocol.MaxClaims {
		t.Errorf("%d ended claims of %d arrived", count, protocol.MaxClaims)
	}
}

// Headers count for the size of a frame: ten thousand small jobs with large headers must not make one frame that no peer takes.
func TestLargeMessagesAreSplitInOrder(t *testing.T) {
	heavy := job
	heavy.Headers = map[string]string{"ce-note": strings.Repeat("h", 10_000)}
	message := protocol.SequencedMessage{BindingID: "b"}
	ack := protocol.Ack{BindingRef: ref}
	for i := range int64(1000) {
		message.Deliveries = append(message.Deliveries, protocol.Delivery{WorkerSeq: i + 1, StoreSeq: i + 1, Attempt: 1, Job: heavy})
		ack.Settlements = append(ack.Settlements, protocol.Settlement{
			WorkerSeq: i + 1, MessageID: "m", Attempt: 1, Outcome: protocol.Nacked, Reason: strings.Repeat("r", 5000),
		})
	}
	next := int64(1)
	frames := wire.EncodeToWorker(message)
	for _, frame := range frames {
		if size := proto.Size(frame); size > wire.MaxFrameBytes+1024 {
			t.Errorf("frame of %d bytes", size)
		}
		for _, d := range frame.GetSequenced().GetDeliveries() {
			if d.GetWorkerSeq() != next {
				t.Fatalf("sequence %d, want %d", d.GetWorkerSeq(), next)
			}
			next++
		}
	}
	if next != 1001 || len(frames) < 10 {
		t.Errorf("%d frames up to sequence %d", len(frames), next-1)
	}
	settled := 0
	for _, frame := range wire.EncodeFromWorker(ack) {
		settled += len(frame.GetAck().GetSettlements())
		if size := proto.Size(frame); size > wire.MaxFrameBytes+1024 {
			t.Errorf("frame of %d bytes", size)
		}
	}
	if settled != 1000 {
		t.Errorf("%d settlements", settled)
	}
}

// The largest job travels alone and fits what a peer takes.
func TestLargestJobFits(t *testing.T) {
	largest := protocol.Job{MessageID: strings.Repeat("m", 256), Headers: map[string]string{"h": strings.Repeat("v", 16<<10-1)}, Payload: make([]byte, protocol.MaxPayloadBytes)}
	frames := wire.EncodeToWorker(protocol.SequencedMessage{BindingID: "b", Deliveries: []protocol.Delivery{
		{WorkerSeq: 1, StoreSeq: 1, Attempt: 1, Job: largest}, {WorkerSeq: 2, StoreSeq: 2, Attempt: 1, Job: job},
	}})
	if len(frames) != 2 || proto.Size(frames[0]) > wire.MaxMessageBytes {
		t.Fatalf("%d frames, the first of %d bytes", len(frames), proto.Size(frames[0]))
	}
	if _, err := wire.DecodeToWorker(frames[0]); err != nil {
		t.Error(err)
	}
}

// A-021, B-200, B-201: one delivery that breaks a limit spoils neither its frame nor the stream. What it says of itself is kept, for its
// worker to refuse it.
func TestInadmissibleDeliveryIsDecodedForItself(t *testing.T) {
	good := func(seq int64) *pb.Delivery {
		return &pb.Delivery{WorkerSeq: seq, StoreSeq: 1, Attempt: 1, Job: &pb.Job{MessageId: "m", Payload: []byte("x")}}
	}
	for name, edit := range map[string]func(*pb.Delivery){
		"no job":              func(d *pb.Delivery) { d.Job = nil },
		"no id":               func(d *pb.Delivery) { d.Job.MessageId = "" },
		"long id":             func(d *pb.Delivery) { d.Job.MessageId = strings.Repeat("x", 257) },
		"NUL in the id":       func(d *pb.Delivery) { d.Job.MessageId = "a\x00b" },
		"no payload":          func(d *pb.Delivery) { d.Job.Payload = nil },
		"large payload":       func(d *pb.Delivery) { d.Job.Payload = make([]byte, protocol.MaxPayloadBytes+1) },
		"header in capitals":  func(d *pb.Delivery) { d.Job.Headers = map[string]string{"A": ""} },
		"short ticket":        func(d *pb.Delivery) { d.Ticket = make([]byte, 15) },
		"long ticket":         func(d *pb.Delivery) { d.Ticket = make([]byte, 17) },
		"attempt 0":           func(d *pb.Delivery) { d.Attempt = 0 },
		"store sequence 0":    func(d *pb.Delivery) { d.StoreSeq = 0 },
		"store sequence end":  func(d *pb.Delivery) { d.StoreSeq = math.MaxInt64 },
		"worker sequence 0":   func(d *pb.Delivery) { d.WorkerSeq = 0 },
		"worker sequence -1":  func(d *pb.Delivery) { d.WorkerSeq = -1 },
		"worker sequence end": func(d *pb.Delivery) { d.WorkerSeq = math.MaxInt64 },
	} {
		spoiled := good(2)
		edit(spoiled)
		got, err := wire.DecodeToWorker(carry(t, &pb.ControllerFrame{Message: &pb.ControllerFrame_Sequenced{
			Sequenced: &pb.SequencedMessage{BindingId: "b", Deliveries: []*pb.Delivery{good(1), spoiled, good(3)}},
		}}))
		message, ok := got.(protocol.SequencedMessage)
		if err != nil || !ok || len(message.Deliveries) != 3 {
			t.Errorf("%s: got %v, %v", name, got, err)
			continue
		}
		for i, d := range message.Deliveries {
			if err := d.Validate(); (err == nil) != (i != 1) {
				t.Errorf("%s: delivery %d: %v", name, i, err)
			}
		}
		if got := message.Deliveries[1].WorkerSeq; got != spoiled.WorkerSeq {
			t.Errorf("%s: sequence %d became %d", name, spoiled.WorkerSeq, got)
		}
	}
}

// A job whose text protobuf cannot carry does not end the stream: the delivery arrives without it.
func TestJobWithoutAFormIsLeftOut(t *testing.T) {
	for name, odd := range map[string]protocol.Job{
		"id":     {MessageID: "\xff", Payload: []byte("x")},
		"key":    {MessageID: "m", Headers: map[string]string{"\xff": ""}, Payload: []byte("x")},
		"header": {MessageID: "m", Headers: map[string]string{"k": "\xff"}, Payload: []byte("x")},
	} {
		frames := wire.EncodeToWorker(protocol.SequencedMessage{BindingID: "b", Deliveries: []protocol.Delivery{
			{WorkerSeq: 1, StoreSeq: 1, Attempt: 1, Job: odd}, {WorkerSeq: 2, StoreSeq: 2, Attempt: 1, Job: job},
		}})
		got, err := wire.DecodeToWorker(carry(t, frames[0]))
		message, ok := got.(protocol.SequencedMessage)
		if err != nil || !ok || len(message.Deliveries) != 2 {
			t.Fatalf("%s: got %v, %v", name, got, err)
		}
		if message.Deliveries[0].Validate() == nil || message.Deliveries[1].Validate() != nil {
			t.Errorf("%s: %v", name, message.Deliveries)
		}
	}
}
