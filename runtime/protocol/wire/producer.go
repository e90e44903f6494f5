package wire

import (
	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// EncodeFromProducer returns the frames of messages. With batches, which the other end has to take, a frame holds as many as there are of
// one session, acknowledgements first; without, one.
func EncodeFromProducer(batches bool, messages ...protocol.FromProducer) []*pb.ProducerFrame {
	if batches {
		return new(producerBatches).encode(messages)
	}
	frames := make([]*pb.ProducerFrame, 0, len(messages))
	for _, message := range messages {
		switch m := message.(type) {
		case protocol.Produced:
			frames = append(frames, &pb.ProducerFrame{Message: &pb.ProducerFrame_Produced{Produced: &pb.Produced{
				Session: m.Session, Token: m.Token, Job: encodeJob(m.Job),
			}}})
		case protocol.StoredAck:
			frames = append(frames, &pb.ProducerFrame{Message: &pb.ProducerFrame_StoredAck{StoredAck: &pb.StoredAck{
				Session: m.Session, Token: m.Token, MessageId: m.MessageID,
			}}})
		}
	}
	return frames
}

// Malformed is a message that breaks a limit.
type Malformed struct {
	// Submission is a message that submits a job, without it but for the id; nil for any other.
	Submission *protocol.Produced
	// Err wraps protocol.ErrInvalid.
	Err error
}

// DecodeFromProducer validates one frame of a producer endpoint. Each message is judged alone: those that keep the limits come in order,
// the others apart.
func DecodeFromProducer(frame *pb.ProducerFrame) (messages []protocol.FromProducer, malformed []Malformed) {
	take := func(message protocol.FromProducer, err error) {
		if err == nil {
			messages = append(messages, message)
			return
		}
		broken := Malformed{Err: err}
		if m, ok := message.(protocol.Produced); ok {
			broken.Submission = &protocol.Produced{Session: m.Session, Token: m.Token, Job: protocol.Job{MessageID: m.Job.MessageID}}
		}
		malformed = append(malformed, broken)
	}
	switch m := frame.GetMessage().(type) {
	case *pb.ProducerFrame_Produced:
		take(decodeProduced(m.Produced.GetSession(), m.Produced))
	case *pb.ProducerFrame_StoredAck:
		take(decodeStoredAck(m.StoredAck.GetSession(), m.StoredAck))
	case *pb.ProducerFrame_Batch:
		if err := checkCount("messages", len(m.Batch.GetStoredAcks())+len(m.Batch.GetProduced())); err != nil {
			take(nil, err)
			break
		}
		messages = make([]protocol.FromProducer, 0, len(m.Batch.GetStoredAcks())+len(m.Batch.GetProduced()))
		for _, ack := range m.Batch.GetStoredAcks() {
			take(decodeStoredAck(m.Batch.GetSession(), ack))
		}
		for _, produced := range m.Batch.GetProduced() {
			take(decodeProduced(m.Batch.GetSession(), produced))
		}
	default:
		take(nil, invalid("frame holds no known message"))
	}
	return messages, malformed
}

// decodeProduced returns what it has read with an error too.
func decodeProduced(session string, m *pb.Produced) (protocol.FromProducer, error) {
	job, err := decodeJob(m.GetJob())
	if err == nil {
		err = job.Validate(0)
	}
	if tokenErr := checkToken(session, m.GetToken()); tokenErr != nil {
		err = tokenErr
	}
	return protocol.Produced{Session: session, Token: m.GetToken(), Job: job}, err
}

func decodeStoredAck(session string, m *pb.StoredAck) (protocol.FromProducer, error) {
	err := checkToken(session, m.GetToken())
	if err == nil {
		err = protocol.CheckID("message id", m.GetMessageId())
	}
	return protocol.StoredAck{Session: session, Token: m.GetToken(), MessageID: m.GetMessageId()}, err
}

func checkToken(session string, token uint64) error {
	if token == 0 || token > protocol.MaxSequence {
		return invalid("token %d is not in 1…%d", token, uint64(protocol.MaxSequence))
	}
	return protocol.CheckID("session", session)
}

// EncodeToProducer returns the frames of messages. With batches, which the other end has to take, a frame holds as many as there are of one
// session between two refusals; without, one.
func EncodeToProducer(batches bool, messages ...protocol.ToProducer) []*pb.GrantFrame {
	if batches {
		return new(grantBatches).encode(messages)
	}
	frames := make([]*pb.GrantFrame, 0, len(messages))
	for _, message := range messages {
		if frame := encodeToProducer(message); frame != nil {
			frames = append(frames, frame)
		}
	}
	return frames
}

func encodeToProducer(message protocol.ToProducer) *pb.GrantFrame {
	switch m := message.(type) {
	case protocol.RequestNext:
		return &pb.GrantFrame{Message: &pb.GrantFrame_RequestNext{RequestNext: &pb.RequestNext{Session: m.Session, UpTo: m.UpTo, Batches: true}}}
	case protocol.Stored:
		stored := encodeStored(m)
		stored.Session = m.Session
		return &pb.GrantFrame{Message: &pb.GrantFrame_Stored{Stored: stored}}
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

// encodeStored leaves the session out.
func encodeStored(m protocol.Stored) *pb.Stored {
	return &pb.Stored{Token: m.Token, MessageId: m.MessageID, StoreSeq: m.StoreSeq, Verdict: pb.StoreVerdict(m.Verdict)}
}

// TakesBatches says whether a frame tells that its sender takes batches.
func TakesBatches(frame *pb.GrantFrame) bool { return frame.GetRequestNext().GetBatches() }

// DecodeToProducer validates one frame of a controller to a producer endpoint and returns its messages in order. An error is about all
// of them.
func DecodeToProducer(frame *pb.GrantFrame) ([]protocol.ToProducer, error) {
	if m, ok := frame.GetMessage().(*pb.GrantFrame_Batch); ok {
		return decodeGrantBatch(m.Batch)
	}
	message, err := decodeToProducer(frame)
	if err != nil {
		return nil, err
	}
	return []protocol.ToProducer{message}, nil
}

func decodeGrantBatch(m *pb.GrantBatch) ([]protocol.ToProducer, error) {
	n := len(m.GetStored()) + len(m.GetDeliveryConfirmed())
	if err := checkCount("messages", n); err != nil {
		return nil, err
	}
	messages := make([]protocol.ToProducer, 0, 1+n)
	if m.GetUpTo() != 0 {
		if err := checkToken(m.GetSession(), m.GetUpTo()); err != nil {
			return nil, err
		}
		messages = append(messages, protocol.RequestNext{Session: m.GetSession(), UpTo: m.GetUpTo()})
	}
	for _, stored := range m.GetStored() {
		message, err := decodeStored(m.GetSession(), stored)
		if err != nil {
			return nil, err
		}
		messages = append(messages, message)
	}
	for _, confirmed := range m.GetDeliveryConfirmed() {
		message, err := decodeDeliveryConfirmed(m.GetSession(), confirmed)
		if err != nil {
			return nil, err
		}
		messages = append(messages, message)
	}
	return messages, nil
}

func decodeToProducer(frame *pb.GrantFrame) (protocol.ToProducer, error) {
	switch m := frame.GetMessage().(type) {
	case *pb.GrantFrame_RequestNext:
		return protocol.RequestNext{Session: m.RequestNext.GetSession(), UpTo: m.RequestNext.GetUpTo()},
			checkToken(m.RequestNext.GetSession(), m.RequestNext.GetUpTo())
	case *pb.GrantFrame_Stored:
		return decodeStored(m.Stored.GetSession(), m.Stored)
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
		return decodeDeliveryConfirmed(m.DeliveryConfirmed.GetSession(), m.DeliveryConfirmed)
	default:
		return nil, invalid("frame holds no known message")
	}
}

func decodeStored(session string, m *pb.Stored) (protocol.ToProducer, error) {
	if err := checkToken(session, m.GetToken()); err != nil {
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
		Session: session, Token: m.GetToken(), MessageID: m.GetMessageId(), StoreSeq: m.GetStoreSeq(), Verdict: verdict,
	}, protocol.CheckID("message id", m.GetMessageId())
}

func decodeDeliveryConfirmed(session string, m *pb.DeliveryConfirmed) (protocol.ToProducer, error) {
	if err := checkSeq("store sequence", m.GetStoreSeq()); err != nil {
		return nil, err
	}
	return protocol.DeliveryConfirmed{Session: session, MessageID: m.GetMessageId(), StoreSeq: m.GetStoreSeq()},
		checkIDs("session", session, "message id", m.GetMessageId())
}
