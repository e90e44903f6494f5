package wire

import (
	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// producerBatches gathers messages of a producer endpoint into frames.
type producerBatches struct {
	frames []*pb.ProducerFrame
	batch  *pb.ProducerBatch // the last of frames
	bytes  int
}

func (b *producerBatches) encode(messages []protocol.FromProducer) []*pb.ProducerFrame {
	for _, message := range messages {
		switch m := message.(type) {
		case protocol.Produced:
			b.room(m.Session, jobBytes(m.Job)+30)
			b.batch.Produced = append(b.batch.Produced, &pb.Produced{Token: m.Token, Job: encodeJob(m.Job)})
		case protocol.StoredAck:
			b.room(m.Session, len(m.MessageID)+20)
			b.batch.StoredAcks = append(b.batch.StoredAcks, &pb.StoredAck{Token: m.Token, MessageId: m.MessageID})
		}
	}
	return b.frames
}

// room begins a frame where the last one has no room for so many bytes, or is of another session.
func (b *producerBatches) room(session string, bytes int) {
	if b.batch == nil || b.batch.Session != session || b.bytes+bytes > MaxFrameBytes || len(b.batch.Produced)+len(b.batch.StoredAcks) == maxItems {
		b.batch, b.bytes = &pb.ProducerBatch{Session: session}, 0
		b.frames = append(b.frames, &pb.ProducerFrame{Message: &pb.ProducerFrame_Batch{Batch: b.batch}})
	}
	b.bytes += bytes
}

// grantBatches gathers messages to a producer endpoint into frames.
type grantBatches struct {
	frames []*pb.GrantFrame
	batch  *pb.GrantBatch // the last of frames, or nil where that is none
	bytes  int
}

func (b *grantBatches) encode(messages []protocol.ToProducer) []*pb.GrantFrame {
	for _, message := range messages {
		switch m := message.(type) {
		case protocol.RequestNext:
			b.room(m.Session, 20)
			b.batch.UpTo = max(b.batch.UpTo, m.UpTo)
		case protocol.Stored:
			b.room(m.Session, len(m.MessageID)+30)
			b.batch.Stored = append(b.batch.Stored, encodeStored(m))
		case protocol.DeliveryConfirmed:
			b.room(m.Session, len(m.MessageID)+20)
			b.batch.DeliveryConfirmed = append(b.batch.DeliveryConfirmed, &pb.DeliveryConfirmed{MessageId: m.MessageID, StoreSeq: m.StoreSeq})
		case protocol.Refused:
			b.frames, b.batch = append(b.frames, encodeToProducer(m)), nil
		}
	}
	return b.frames
}

func (b *grantBatches) room(session string, bytes int) {
	if b.batch == nil || b.batch.Session != session || b.bytes+bytes > MaxFrameBytes || len(b.batch.Stored)+len(b.batch.DeliveryConfirmed) == maxItems {
		b.batch, b.bytes = &pb.GrantBatch{Session: session}, 0
		b.frames = append(b.frames, &pb.GrantFrame{Message: &pb.GrantFrame_Batch{Batch: b.batch}})
	}
	b.bytes += bytes
}
