package wire

import (
	"fmt"

	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
)

func encodeTicket(t protocol.Ticket) []byte {
	if t.IsZero() {
		return nil
	}
	return t[:]
}

// decodeTicket accepts no ticket at all from a peer that knows of none.
func decodeTicket(raw []byte) (t protocol.Ticket, err error) {
	if len(raw) != 0 && len(raw) != protocol.TicketBytes {
		return t, invalid("a ticket of %d bytes", len(raw))
	}
	copy(t[:], raw)
	return t, nil
}

func encodeClaims(claims []protocol.Claim) []*pb.Claim {
	if len(claims) == 0 {
		return nil
	}
	out := make([]*pb.Claim, len(claims))
	for i, c := range claims {
		out[i] = &pb.Claim{
			StoreSeq: c.StoreSeq, MessageId: c.MessageID, Attempt: int32(c.Attempt), Ticket: encodeTicket(c.Ticket),
			State: pb.ClaimState(c.State), Reason: protocol.ClipClaimReason(c.Reason),
		}
	}
	return out
}

func decodeClaims(claims []*pb.Claim) ([]protocol.Claim, error) {
	if len(claims) > protocol.MaxClaims {
		return nil, invalid("%d claims in one frame, the limit is %d", len(claims), protocol.MaxClaims)
	}
	if len(claims) == 0 {
		return nil, nil
	}
	out := make([]protocol.Claim, len(claims))
	for i, c := range claims {
		ticket, err := decodeTicket(c.GetTicket())
		if err == nil {
			out[i] = protocol.Claim{
				StoreSeq: c.GetStoreSeq(), MessageID: c.GetMessageId(), Attempt: int(c.GetAttempt()), Ticket: ticket,
				State: protocol.ClaimState(c.GetState()), Reason: protocol.ClipClaimReason(c.GetReason()),
			}
			err = out[i].Validate()
		}
		if err != nil {
			return nil, fmt.Errorf("claim %d: %w", i, err)
		}
	}
	return out, nil
}

func encodeAdopted(adopted []protocol.Adopted) []*pb.Adopted {
	if len(adopted) == 0 {
		return nil
	}
	out := make([]*pb.Adopted, len(adopted))
	for i, a := range adopted {
		out[i] = &pb.Adopted{
			WorkerSeq: a.WorkerSeq, StoreSeq: a.StoreSeq, MessageId: a.MessageID, Attempt: int32(a.Attempt), Ticket: encodeTicket(a.Ticket),
		}
	}
	return out
}

// decodeAdopted leaves the limits to RegistrationAck.Validate, except the one that bounds memory.
func decodeAdopted(adopted []*pb.Adopted) ([]protocol.Adopted, error) {
	if len(adopted) > protocol.MaxClaims {
		return nil, invalid("%d adopted jobs in one frame, the limit is %d", len(adopted), protocol.MaxClaims)
	}
	if len(adopted) == 0 {
		return nil, nil
	}
	out := make([]protocol.Adopted, len(adopted))
	for i, a := range adopted {
		ticket, err := decodeTicket(a.GetTicket())
		if err != nil {
			return nil, fmt.Errorf("adopted job %d: %w", i, err)
		}
		out[i] = protocol.Adopted{
			WorkerSeq: a.GetWorkerSeq(), StoreSeq: a.GetStoreSeq(), MessageID: a.GetMessageId(), Attempt: int(a.GetAttempt()), Ticket: ticket,
		}
	}
	return out, nil
}

// encodeClaimsEnded splits by size.
func encodeClaimsEnded(m protocol.ClaimsEnded) []*pb.ControllerFrame {
	var frames []*pb.ControllerFrame
	var ended *pb.ClaimsEnded
	size := 0
	for _, ref := range m.Ended {
		cost := len(ref.MessageID) + 20
		if ended == nil || size+cost > MaxFrameBytes || len(ended.Ended) == maxItems {
			ended = &pb.ClaimsEnded{BindingId: m.BindingID}
			frames = append(frames, &pb.ControllerFrame{Message: &pb.ControllerFrame_ClaimsEnded{ClaimsEnded: ended}})
			size = 0
		}
		size += cost
		ended.Ended = append(ended.Ended, &pb.ClaimRef{MessageId: ref.MessageID, StoreSeq: ref.StoreSeq})
	}
	return frames
}

func decodeClaimsEnded(m *pb.ClaimsEnded) (protocol.ToWorker, error) {
	if err := protocol.CheckID("binding id", m.GetBindingId()); err != nil {
		return nil, err
	}
	if err := checkCount("ended claims", len(m.GetEnded())); err != nil {
		return nil, err
	}
	out := protocol.ClaimsEnded{BindingID: m.GetBindingId(), Ended: make([]protocol.ClaimRef, len(m.GetEnded()))}
	for i, ref := range m.GetEnded() {
		out.Ended[i] = protocol.ClaimRef{MessageID: ref.GetMessageId(), StoreSeq: ref.GetStoreSeq()}
		if err := out.Ended[i].Validate(); err != nil {
			return nil, fmt.Errorf("ended claim %d: %w", i, err)
		}
	}
	return out, nil
}
