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
		seed(wire.EncodeFromProducer(false, message)[0])
	}
	for _, message := range toProducer {
		seed(wire.EncodeToProducer(false, message)[0])
	}
	seed(wire.EncodeFromProducer(true, fromProducer...)[0])
	seed(wire.EncodeToProducer(true, toProducer...)[0])
	f.Fuzz(func(t *testing.T, raw []byte) {
		check := func(err error, again func() error) { // again is for what is accepted
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
			messages, malformed := wire.DecodeFromProducer(frame)
			for _, m := range malformed {
				check(m.Err, nil)
			}
			for _, batches := range []bool{false, true} {
				for _, again := range wire.EncodeFromProducer(batches, messages...) {
					if _, malformed := wire.DecodeFromProducer(again); len(malformed) > 0 {
						t.Errorf("accepted once, then refused: %v", malformed)
					}
				}
			}
		}
		if frame := new(pb.GrantFrame); proto.Unmarshal(raw, frame) == nil {
			messages, err := wire.DecodeToProducer(frame)
			check(err, func() error {
				var errs []error
				for _, batches := range []bool{false, true} {
					for _, again := range wire.EncodeToProducer(batches, messages...) {
						_, err := wire.DecodeToProducer(again)
						errs = append(errs, err)
					}
				}
				return errors.Join(errs...)
			})
		}
	})
}
