package transport

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc/metadata"

	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// RelayProduce passes a producer endpoint's stream on to the active producer until either side ends it, with the token of active, or the
// caller's own where that has none. A stream that has been passed on already is refused, so that two members with different ideas of who is active form no loop.
func RelayProduce(stream pb.WorkPulling_ProduceServer, active Peer) error {
	in := stream.Context()
	if active.Address == "" || len(metadata.ValueFromIncomingContext(in, hopKey)) > 0 {
		return RefuseAsStandby(stream, active.Address)
	}
	out := metadata.Pairs(hopKey, "1")
	if active.TokenFile == "" && active.Token == nil {
		out.Set(authorization, metadata.ValueFromIncomingContext(in, authorization)...)
	}
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(in, out))
	defer cancel()
	conn, err := active.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	onward, err := pb.NewWorkPullingClient(conn).Produce(ctx)
	if err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- pump(onward.Recv, stream.Send) }()
	go func() {
		err := pump(stream.Recv, onward.Send)
		if errors.Is(err, io.EOF) {
			err = onward.CloseSend() // the answers still come
		}
		if err != nil {
			ended <- err
		}
	}()
	if err := <-ended; !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// pump moves frames until either side fails.
func pump[F any](receive func() (F, error), send func(F) error) error {
	for {
		frame, err := receive()
		if err != nil {
			return err
		}
		if err := send(frame); err != nil {
			return err
		}
	}
}
