package wire

import (
	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// EncodeFromProducer returns the frame of one message.
func EncodeFromProducer(message protocol.FromProducer) *pb.ProducerFrame {
	switch m := message.(type) {
	case protocol.Produced:
		return &pb.ProducerFrame{Message: &pb.ProducerFrame_Produced{Produced: &pb.Produced{
			Session: m.Session, Token: m.Token, Job: encodeJob(m.Job),
		}}}
	case protocol.StoredAck:
		return &pb.ProducerFrame{Message: &pb.ProducerFrame_StoredAck{StoredAck: &pb.StoredAck{
			Session: m.Session, Token: m.Token, MessageId: m.MessageID,
		}}}
	}
	return nil
}

// DecodeFromProducer validates one frame of a producer endpoint.
func DecodeFromProducer(frame *pb.ProducerFrame) (protocol.FromProducer, error) {
	switch m := frame.GetMessage().(type) {
	case *pb.ProducerFrame_Produced:
		if err := checkToken(m.Produced.GetSession(), m.Produced.GetToken()); err != nil {
			return nil, err
		}
		job, err := decodeJob(m.Produced.GetJob())
		if err != nil {
			return nil, err
		}
		return protocol.Produced{Session: m.Produced.GetSession(), Token: m.Produced.GetToken(), Job: job}, job.Validate(0)
	case *pb.ProducerFrame_StoredAck:
		if err := checkToken(m.StoredAck.GetSession(), m.StoredAck.GetToken()); err != nil {
			return nil, err
		}
		return protocol.StoredAck{Session: m.StoredAck.GetSession(), Token: m.StoredAck.GetToken(), MessageID: m.StoredAck.GetMessageId()},
			protocol.CheckID("message id", m.StoredAck.GetMessageId())
	default:
		return nil, invalid("frame holds no known message")
	}
}

func checkToken(session string, token uint64) error {
	if token == 0 || token > protocol.MaxSequence {
		return invalid("token %d is not in 1…%d", token, uint64(protocol.MaxSequence))
	}
	return protocol.CheckID("session", session)
}

// EncodeToProducer returns the frame of one message.
func EncodeToProducer(message protocol.ToProducer) *pb.GrantFrame {
	switch m := message.(type) {
	case protocol.RequestNext:
		return &pb.GrantFrame{Message: &pb.GrantFrame_RequestNext{RequestNext: &pb.RequestNext{Session: m.Session, UpTo: m.UpTo}}}
	case protocol.Stored:
		return &pb.GrantFrame{Message: &pb.GrantFrame_Stored{Stored: &pb.Stored{
			Session: m.Session, Token: m.Token, MessageId: m.MessageID, StoreSeq: m.StoreSeq, Verdict: pb.StoreVerdict(m.Verdict),
		}}}
	case protocol.Refused:
		return &pb.GrantFrame{Message: &pb.GrantFrame_Refused{Refused: &pb.Refused{
			Session: m.Session, Token: m.Token, MessageId: m.MessageID, Code: string(m.Code), Reason: protocol.ClipReason(m.Reason),
			RetryAfterMilliseconds: milliseconds(m.RetryAfter),
		}}}
	case protocol.DeliveryConfirmed:
		return &pb.GrantFrame{Message: &pb.GrantFrame_DeliveryConfirmed{DeliveryConfirmed: &pb.DeliveryConfirmed{
			Session: m.Session, MessageId: m.MessageID, StoreSeq: m.StoreSeq,
		}}}
	}
	return nil
}

// DecodeToProducer validates one frame of a controller to a producer endpoint.
func DecodeToProducer(frame *pb.GrantFrame) (protocol.ToProducer, error) {
	switch m := frame.GetMessage().(type) {
	case *pb.GrantFrame_RequestNext:
		return protocol.RequestNext{Session: m.RequestNext.GetSession(), UpTo: m.RequestNext.GetUpTo()},
			checkToken(m.RequestNext.GetSession(), m.RequestNext.GetUpTo())
	case *pb.GrantFrame_Stored:
		return decodeStored(m.Stored)
	case *pb.GrantFrame_Refused:
		after, err := duration("retry-after", m.Refused.GetRetryAfterMilliseconds())
		if err == nil {
			err = checkOptionalID("session", m.Refused.GetSession())
		}
		return protocol.Refused{
			Session: m.Refused.GetSession(), Token: m.Refused.GetToken(), MessageID: m.Refused.GetMessageId(),
			Code: protocol.RefusalCode(protocol.ClipReason(m.Refused.GetCode())), Reason: protocol.ClipReason(m.Refused.GetReason()), RetryAfter: after,
		}, err
	case *pb.GrantFrame_DeliveryConfirmed:
		if err := checkSeq("store sequence", m.DeliveryConfirmed.GetStoreSeq()); err != nil {
			return nil, err
		}
		return protocol.DeliveryConfirmed{
			Session: m.DeliveryConfirmed.GetSession(), MessageID: m.DeliveryConfirmed.GetMessageId(), StoreSeq: m.DeliveryConfirmed.GetStoreSeq(),
		}, checkIDs("session", m.DeliveryConfirmed.GetSession(), "message id", m.DeliveryConfirmed.GetMessageId())
	default:
		return nil, invalid("frame holds no known message")
	}
}

func decodeStored(m *pb.Stored) (protocol.ToProducer, error) {
	if err := checkToken(m.GetSession(), m.GetToken()); err != nil {
		return nil, err
	}
	if err := checkSeq("store sequence", m.GetStoreSeq()); err != nil {
		return nil, err
	}
	verdict := protocol.StoreVerdict(m.GetVerdict())
	if verdict < protocol.StoredNew || verdict > protocol.BodyMismatch {
		return nil, invalid("verdict %d", verdict)
	}
	return protocol.Stored{
		Session: m.GetSession(), Token: m.GetToken(), MessageID: m.GetMessageId(), StoreSeq: m.GetStoreSeq(), Verdict: verdict,
	}, protocol.CheckID("message id", m.GetMessageId())
}
