package wire_test

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/protocol/wire"
)

// FuzzDecode feeds arbitrary bytes to all four decoders: none may panic, every error is ErrInvalid, and what is accepted
// encodes again to what decodes the same (B-200…B-202).
func FuzzDecode(f *testing.F) {
	seed := func(message proto.Message) {
		raw, err := proto.Marshal(message)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
		f.Add(raw[:len(raw)/2])
	}
	for _, message := range fromWorker {
		seed(wire.EncodeFromWorker(message)[0])
	}
	for _, message := range toWorker {
		seed(wire.EncodeToWorker(message)[0])
	}
	for _, message := range fromProducer {
		seed(wire.EncodeFromProducer(message))
	}
	for _, message := range toProducer {
		seed(wire.EncodeToProducer(message))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		check := func(err error, again func() error) {
			if err != nil {
				if !errors.Is(err, protocol.ErrInvalid) {
					t.Errorf("error %v is not ErrInvalid", err)
				}
				return
			}
			if err := again(); err != nil {
				t.Errorf("accepted once, then refused: %v", err)
			}
		}
		if frame := new(pb.WorkerFrame); proto.Unmarshal(raw, frame) == nil {
			message, err := wire.DecodeFromWorker(frame)
			check(err, func() error { _, err := wire.DecodeFromWorker(wire.EncodeFromWorker(message)[0]); return err })
		}
		if frame := new(pb.ControllerFrame); proto.Unmarshal(raw, frame) == nil {
			message, err := wire.DecodeToWorker(frame)
			check(err, func() error {
				for _, again := range wire.EncodeToWorker(message) {
					if _, err := wire.DecodeToWorker(again); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if frame := new(pb.ProducerFrame); proto.Unmarshal(raw, frame) == nil {
			message, err := wire.DecodeFromProducer(frame)
			check(err, func() error { _, err := wire.DecodeFromProducer(wire.EncodeFromProducer(message)); return err })
		}
		if frame := new(pb.GrantFrame); proto.Unmarshal(raw, frame) == nil {
			message, err := wire.DecodeToProducer(frame)
			check(err, func() error { _, err := wire.DecodeToProducer(wire.EncodeToProducer(message)); return err })
		}
	})
}
