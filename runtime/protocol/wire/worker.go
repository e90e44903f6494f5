package wire

import (
	"fmt"

	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// EncodeFromWorker returns the frames of one message, in order.
func EncodeFromWorker(message protocol.FromWorker) []*pb.WorkerFrame {
	switch m := message.(type) {
	case protocol.RegisterConsumer:
		return []*pb.WorkerFrame{{Message: &pb.WorkerFrame_Register{Register: &pb.RegisterConsumer{
			Version: int32(m.Version), Nonce: m.Nonce, PodUid: m.Incarnation.PodUID, BootNonce: m.Incarnation.BootNonce, Window: int32(m.Window),
			Claims: encodeClaims(m.Claims), Epoch: m.Epoch, Queue: m.Queue,
		}}}}
	case protocol.Request:
		return []*pb.WorkerFrame{{Message: &pb.WorkerFrame_Request{Request: &pb.Request{
			BindingId: m.BindingID, Secret: m.Secret, ConfirmedSeq: m.ConfirmedSeq, RequestUpTo: m.RequestUpTo,
			StartedSeq: m.StartedSeq, ViaTimeout: m.ViaTimeout,
		}}}}
	case protocol.Ack:
		return encodeAck(m)
	case protocol.Drain:
		return []*pb.WorkerFrame{{Message: &pb.WorkerFrame_Drain{Drain: &pb.Drain{BindingId: m.BindingID, Secret: m.Secret}}}}
	case protocol.Heartbeat:
		return []*pb.WorkerFrame{{Message: &pb.WorkerFrame_Heartbeat{Heartbeat: encodeHeartbeat(m)}}}
	}
	return nil
}

func encodeHeartbeat(m protocol.Heartbeat) *pb.Heartbeat {
	return &pb.Heartbeat{BindingId: m.BindingID, Secret: m.Secret, StartedSeq: m.StartedSeq}
}

// encodeAck splits by the size of the settlements.
func encodeAck(m protocol.Ack) []*pb.WorkerFrame {
	var frames []*pb.WorkerFrame
	var ack *pb.Ack
	size := 0
	next := func() {
		ack = &pb.Ack{BindingId: m.BindingID, Secret: m.Secret, StartedSeq: m.StartedSeq}
		frames = append(frames, &pb.WorkerFrame{Message: &pb.WorkerFrame_Ack{Ack: ack}})
		size = 0
	}
	next()
	for _, s := range m.Settlements {
		reason := protocol.ClipReason(s.Reason)
		cost := len(s.MessageID) + len(reason) + 40
		if size > 0 && size+cost > MaxFrameBytes {
			next()
		}
		size += cost
		ack.Settlements = append(ack.Settlements, &pb.Settlement{
			WorkerSeq: s.WorkerSeq, MessageId: s.MessageID, Attempt: int32(s.Attempt), Outcome: pb.Outcome(s.Outcome),
			Reason: reason, RetryAfterMilliseconds: milliseconds(s.RetryAfter),
		})
	}
	return frames
}

// DecodeFromWorker validates one frame of a worker.
func DecodeFromWorker(frame *pb.WorkerFrame) (protocol.FromWorker, error) {
	switch m := frame.GetMessage().(type) {
	case *pb.WorkerFrame_Register:
		return decodeRegister(m.Register)
	case *pb.WorkerFrame_Request:
		ref, err := decodeBinding(m.Request.GetBindingId(), m.Request.GetSecret())
		return protocol.Request{
			BindingRef: ref, ConfirmedSeq: m.Request.GetConfirmedSeq(), RequestUpTo: m.Request.GetRequestUpTo(),
			StartedSeq: m.Request.GetStartedSeq(), ViaTimeout: m.Request.GetViaTimeout(),
		}, err
	case *pb.WorkerFrame_Ack:
		return decodeAck(m.Ack)
	case *pb.WorkerFrame_Drain:
		ref, err := decodeBinding(m.Drain.GetBindingId(), m.Drain.GetSecret())
		return protocol.Drain{BindingRef: ref}, err
	case *pb.WorkerFrame_Heartbeat:
		ref, err := decodeBinding(m.Heartbeat.GetBindingId(), m.Heartbeat.GetSecret())
		if err == nil {
			err = checkMark("started sequence", m.Heartbeat.GetStartedSeq())
		}
		return protocol.Heartbeat{BindingRef: ref, StartedSeq: m.Heartbeat.GetStartedSeq()}, err
	default:
		return nil, invalid("frame holds no known message")
	}
}

func decodeBinding(id, secret string) (protocol.BindingRef, error) {
	return protocol.BindingRef{BindingID: id, Secret: secret}, checkIDs("binding id", id, "binding secret", secret)
}

func decodeRegister(m *pb.RegisterConsumer) (protocol.FromWorker, error) {
	claims, err := decodeClaims(m.GetClaims())
	if err != nil {
		return nil, err
	}
	return protocol.RegisterConsumer{
		Version: int(m.GetVersion()), Nonce: m.GetNonce(), Window: int(m.GetWindow()),
		Incarnation: protocol.Incarnation{PodUID: m.GetPodUid(), BootNonce: m.GetBootNonce()}, Claims: claims,
		Epoch: m.GetEpoch(), Queue: m.GetQueue(),
	}, checkIDs("nonce", m.GetNonce(), "pod uid", m.GetPodUid(), "boot nonce", m.GetBootNonce())
}

func decodeAck(m *pb.Ack) (protocol.FromWorker, error) {
	ref, err := decodeBinding(m.GetBindingId(), m.GetSecret())
	if err != nil {
		return nil, err
	}
	if err := checkMark("started sequence", m.GetStartedSeq()); err != nil {
		return nil, err
	}
	if err := checkCount("settlements", len(m.GetSettlements())); err != nil {
		return nil, err
	}
	out := protocol.Ack{BindingRef: ref, StartedSeq: m.GetStartedSeq(), Settlements: make([]protocol.Settlement, 0, len(m.GetSettlements()))}
	for i, s := range m.GetSettlements() {
		settlement, err := decodeSettlement(s)
		if err != nil {
			return nil, fmt.Errorf("settlement %d: %w", i, err)
		}
		out.Settlements = append(out.Settlements, settlement)
	}
	return out, nil
}

func decodeSettlement(s *pb.Settlement) (protocol.Settlement, error) {
	after, err := duration("retry-after", s.GetRetryAfterMilliseconds())
	if err != nil {
		return protocol.Settlement{}, err
	}
	out := protocol.Settlement{
		WorkerSeq: s.GetWorkerSeq(), MessageID: s.GetMessageId(), Attempt: int(s.GetAttempt()), Outcome: protocol.Outcome(s.GetOutcome()),
		Reason: protocol.ClipReason(s.GetReason()), RetryAfter: after,
	}
	return out, out.Validate()
}
