package wire

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// EncodeToWorker returns the frames of messages. What is of one kind shares a frame: deliveries in order, and the word on what is taken over,
// which may then be told before or after a delivery that it does not concern. Every other message keeps its place among them.
func EncodeToWorker(messages ...protocol.ToWorker) []*pb.ControllerFrame {
	var f controllerFrames
	for _, message := range messages {
		switch m := message.(type) {
		case protocol.SequencedMessage:
			f.sequence(m)
		case protocol.SettledAck:
			f.settle(m)
		default:
			f.add(encodeToWorker(m)...)
		}
	}
	return f.frames
}

// controllerFrames are frames in the making.
type controllerFrames struct {
	frames    []*pb.ControllerFrame
	sequenced *pb.SequencedMessage // a frame that has room, or nil
	bytes     int                  // of sequenced
	settled   *pb.SettledAck       // a frame that has room, or nil
}

// add appends frames of their own.
func (f *controllerFrames) add(frames ...*pb.ControllerFrame) {
	f.frames = append(f.frames, frames...)
	f.sequenced, f.settled = nil, nil
}

// sequence splits by the size of the deliveries, headers included.
func (f *controllerFrames) sequence(m protocol.SequencedMessage) {
	if f.sequenced != nil && f.sequenced.BindingId != m.BindingID {
		f.sequenced = nil
	}
	made := make([]madeDelivery, len(m.Deliveries))
	for i := range m.Deliveries {
		d := &m.Deliveries[i]
		cost := jobBytes(d.Job) + 60
		if f.sequenced == nil || f.bytes+cost > MaxFrameBytes || len(f.sequenced.Deliveries) == maxItems {
			f.sequenced, f.bytes = &pb.SequencedMessage{BindingId: m.BindingID, Deliveries: make([]*pb.Delivery, 0, len(m.Deliveries)-i)}, 0
			f.frames = append(f.frames, &pb.ControllerFrame{Message: &pb.ControllerFrame_Sequenced{Sequenced: f.sequenced}})
		}
		f.bytes += cost
		f.sequenced.Deliveries = append(f.sequenced.Deliveries, made[i].fill(d))
	}
}

// madeDelivery is one delivery in its wire form, in one piece.
type madeDelivery struct {
	delivery pb.Delivery
	job      pb.Job
}

func (m *madeDelivery) fill(d *protocol.Delivery) *pb.Delivery {
	out := &m.delivery
	out.WorkerSeq, out.StoreSeq, out.Attempt, out.Redelivered = d.WorkerSeq, d.StoreSeq, int32(d.Attempt), d.Redelivered
	if !d.Ticket.IsZero() {
		out.Ticket = d.Ticket[:]
	}
	if written(d.Job) {
		m.job.MessageId, m.job.Headers, m.job.Payload = d.Job.MessageID, d.Job.Headers, d.Job.Payload
		out.Job = &m.job
	}
	return out
}

// settle adds to what is told already.
func (f *controllerFrames) settle(m protocol.SettledAck) {
	if s := f.settled; s != nil && s.BindingId == m.BindingID && len(s.Above)+len(m.Above) <= maxItems {
		s.UpTo, s.Above = max(s.UpTo, m.UpTo), append(s.Above, m.Above...)
		return
	}
	f.settled = &pb.SettledAck{BindingId: m.BindingID, UpTo: m.UpTo, Above: slices.Clip(m.Above)}
	f.frames = append(f.frames, &pb.ControllerFrame{Message: &pb.ControllerFrame_Settled{Settled: f.settled}})
}

func encodeToWorker(message protocol.ToWorker) []*pb.ControllerFrame {
	switch m := message.(type) {
	case protocol.RegistrationAck:
		return []*pb.ControllerFrame{{Message: &pb.ControllerFrame_RegistrationAck{RegistrationAck: &pb.RegistrationAck{
			Session: m.Session, Nonce: m.Nonce, BindingId: m.BindingID, Secret: m.Secret, NextSeq: m.NextSeq, Window: int32(m.Window),
			HeartbeatMilliseconds: milliseconds(m.Heartbeat), DeadlineMilliseconds: milliseconds(m.Deadline),
			Epoch: m.Epoch, Queue: m.Queue, Adopted: encodeAdopted(m.Adopted),
		}}}}
	case protocol.RegistrationRefused:
		return []*pb.ControllerFrame{{Message: &pb.ControllerFrame_RegistrationRefused{RegistrationRefused: &pb.RegistrationRefused{
			Nonce: m.Nonce, Code: string(m.Code), Reason: protocol.ClipReason(m.Reason), RetryAfterMilliseconds: milliseconds(m.RetryAfter),
		}}}}
	case protocol.HandBack:
		return []*pb.ControllerFrame{{Message: &pb.ControllerFrame_HandBack{HandBack: &pb.HandBack{BindingId: m.BindingID, Count: int32(m.Count)}}}}
	case protocol.Heartbeat:
		return []*pb.ControllerFrame{{Message: &pb.ControllerFrame_Heartbeat{Heartbeat: encodeHeartbeat(m)}}}
	case protocol.BindingEnded:
		return []*pb.ControllerFrame{{Message: &pb.ControllerFrame_Ended{Ended: &pb.BindingEnded{
			BindingId: m.BindingID, Code: string(m.Code), Reason: protocol.ClipReason(m.Reason), RetryAfterMilliseconds: milliseconds(m.RetryAfter),
		}}}}
	case protocol.ClaimsEnded:
		return encodeClaimsEnded(m)
	}
	return nil
}

// written is false for a job with text that protobuf has no form for, which is left out: the worker refuses such a delivery, where a frame
// that cannot be written would end the stream of one worker after the other.
func written(job protocol.Job) bool {
	if !utf8.ValidString(job.MessageID) {
		return false
	}
	for key, value := range job.Headers {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return false
		}
	}
	return true
}

func jobBytes(job protocol.Job) int {
	size := len(job.MessageID) + len(job.Payload)
	for key, value := range job.Headers {
		size += len(key) + len(value) + 8
	}
	return size
}

// DecodeToWorker validates one frame of a controller.
func DecodeToWorker(frame *pb.ControllerFrame) (protocol.ToWorker, error) {
	switch m := frame.GetMessage().(type) {
	case *pb.ControllerFrame_RegistrationAck:
		return decodeRegistrationAck(m.RegistrationAck)
	case *pb.ControllerFrame_RegistrationRefused:
		after, err := duration("retry-after", m.RegistrationRefused.GetRetryAfterMilliseconds())
		if err == nil {
			err = checkOptionalID("nonce", m.RegistrationRefused.GetNonce())
		}
		return protocol.RegistrationRefused{
			Nonce: m.RegistrationRefused.GetNonce(), Code: protocol.RefusalCode(protocol.ClipReason(m.RegistrationRefused.GetCode())),
			Reason: protocol.ClipReason(m.RegistrationRefused.GetReason()), RetryAfter: after,
		}, err
	case *pb.ControllerFrame_Sequenced:
		return decodeSequenced(m.Sequenced)
	case *pb.ControllerFrame_Settled:
		return decodeSettled(m.Settled)
	case *pb.ControllerFrame_HandBack:
		if m.HandBack.GetCount() < 1 {
			return nil, invalid("hand-back of %d deliveries", m.HandBack.GetCount())
		}
		return protocol.HandBack{BindingID: m.HandBack.GetBindingId(), Count: int(m.HandBack.GetCount())},
			protocol.CheckID("binding id", m.HandBack.GetBindingId())
	case *pb.ControllerFrame_Heartbeat:
		return protocol.Heartbeat{BindingRef: protocol.BindingRef{BindingID: m.Heartbeat.GetBindingId()}},
			checkOptionalID("binding id", m.Heartbeat.GetBindingId())
	case *pb.ControllerFrame_Ended:
		after, err := duration("retry-after", m.Ended.GetRetryAfterMilliseconds())
		if err == nil {
			err = protocol.CheckID("binding id", m.Ended.GetBindingId())
		}
		return protocol.BindingEnded{
			BindingID: m.Ended.GetBindingId(), Code: protocol.RefusalCode(protocol.ClipReason(m.Ended.GetCode())), Reason: protocol.ClipReason(m.Ended.GetReason()), RetryAfter: after,
		}, err
	case *pb.ControllerFrame_ClaimsEnded:
		return decodeClaimsEnded(m.ClaimsEnded)
	default:
		return nil, invalid("frame holds no known message")
	}
}

func decodeRegistrationAck(m *pb.RegistrationAck) (protocol.ToWorker, error) {
	heartbeat, heartbeatErr := duration("heartbeat", m.GetHeartbeatMilliseconds())
	deadline, deadlineErr := duration("deadline", m.GetDeadlineMilliseconds())
	adopted, adoptedErr := decodeAdopted(m.GetAdopted())
	if err := errors.Join(heartbeatErr, deadlineErr, adoptedErr); err != nil {
		return nil, err
	}
	out := protocol.RegistrationAck{
		Session: m.GetSession(), Nonce: m.GetNonce(), BindingID: m.GetBindingId(), Secret: m.GetSecret(), NextSeq: m.GetNextSeq(),
		Window: int(m.GetWindow()), Heartbeat: heartbeat, Deadline: deadline, Epoch: m.GetEpoch(), Queue: m.GetQueue(), Adopted: adopted,
	}
	return out, out.Validate()
}

func decodeSequenced(m *pb.SequencedMessage) (protocol.ToWorker, error) {
	if err := protocol.CheckID("binding id", m.GetBindingId()); err != nil {
		return nil, err
	}
	if err := checkCount("deliveries", len(m.GetDeliveries())); err != nil {
		return nil, err
	}
	out := protocol.SequencedMessage{BindingID: m.GetBindingId(), Deliveries: make([]protocol.Delivery, 0, len(m.GetDeliveries()))}
	for _, d := range m.GetDeliveries() {
		out.Deliveries = append(out.Deliveries, decodeDelivery(d))
	}
	return out, nil
}

// decodeDelivery leaves the limits to Delivery.Validate, which the worker's machine calls: its answer names the sequence.
func decodeDelivery(d *pb.Delivery) protocol.Delivery {
	job := d.GetJob()
	out := protocol.Delivery{
		WorkerSeq: d.GetWorkerSeq(), StoreSeq: d.GetStoreSeq(), Attempt: int(d.GetAttempt()), Redelivered: d.GetRedelivered(),
		Job: protocol.Job{MessageID: job.GetMessageId(), Headers: job.GetHeaders(), Payload: job.GetPayload()},
	}
	ticket, err := decodeTicket(d.GetTicket())
	if err != nil {
		out.Broken = fmt.Sprintf("the ticket has %d bytes", len(d.GetTicket()))
	}
	out.Ticket = ticket
	return out
}

func decodeSettled(m *pb.SettledAck) (protocol.ToWorker, error) {
	if err := protocol.CheckID("binding id", m.GetBindingId()); err != nil {
		return nil, err
	}
	if err := checkMark("settled watermark", m.GetUpTo()); err != nil {
		return nil, err
	}
	if err := checkCount("settled sequences", len(m.GetAbove())); err != nil {
		return nil, err
	}
	for _, seq := range m.GetAbove() {
		if err := checkSeq("settled sequence", seq); err != nil {
			return nil, err
		}
	}
	return protocol.SettledAck{BindingID: m.GetBindingId(), UpTo: m.GetUpTo(), Above: m.GetAbove()}, nil
}
