package wire

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// EncodeToWorker returns the frames of one message, in order.
func EncodeToWorker(message protocol.ToWorker) []*pb.ControllerFrame {
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
	case protocol.SequencedMessage:
		return encodeSequenced(m)
	case protocol.SettledAck:
		return []*pb.ControllerFrame{{Message: &pb.ControllerFrame_Settled{Settled: &pb.SettledAck{
			BindingId: m.BindingID, UpTo: m.UpTo, Above: m.Above,
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

// encodeSequenced splits by the size of the deliveries, headers included.
func encodeSequenced(m protocol.SequencedMessage) []*pb.ControllerFrame {
	var frames []*pb.ControllerFrame
	var sequenced *pb.SequencedMessage
	size := 0
	for _, d := range m.Deliveries {
		cost := jobBytes(d.Job) + 60
		if sequenced == nil || size+cost > MaxFrameBytes {
			sequenced = &pb.SequencedMessage{BindingId: m.BindingID}
			frames = append(frames, &pb.ControllerFrame{Message: &pb.ControllerFrame_Sequenced{Sequenced: sequenced}})
			size = 0
		}
		size += cost
		sequenced.Deliveries = append(sequenced.Deliveries, &pb.Delivery{
			WorkerSeq: d.WorkerSeq, StoreSeq: d.StoreSeq, Attempt: int32(d.Attempt), Redelivered: d.Redelivered, Job: encodeDelivered(d.Job),
			Ticket: encodeTicket(d.Ticket),
		})
	}
	return frames
}

// encodeDelivered leaves out a job with text that protobuf has no form for: the worker refuses such a delivery, where a frame that
// cannot be written would end the stream of one worker after the other.
func encodeDelivered(job protocol.Job) *pb.Job {
	fine := utf8.ValidString(job.MessageID)
	for key, value := range job.Headers {
		fine = fine && utf8.ValidString(key) && utf8.ValidString(value)
	}
	if !fine {
		return nil
	}
	return encodeJob(job)
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
