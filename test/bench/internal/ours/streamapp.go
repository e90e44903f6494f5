package ours

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	appv1 "github.com/workpulling/workpulling/runtime/protocol/app/v1"
	"github.com/workpulling/workpulling/runtime/protocol/wire"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// dialSocket prepares a connection to a sidecar's Unix socket.
func dialSocket(path string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wire.MaxMessageBytes), grpc.MaxCallSendMsgSize(wire.MaxMessageBytes)))
}

// consumeStream starts an app that takes jobs from the stream of its sidecar and confirms a frame's worth in one frame.
func consumeStream(stage *trial.Stage, worker int, handle func([]byte)) (func() error, error) {
	conn, err := dialSocket(appSocket(stage, worker))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	welcome := make(chan error, 1)
	working.Go(func() { work(ctx, conn, handle, welcome) })
	stop := func() error {
		cancel()
		working.Wait()
		return conn.Close()
	}
	select {
	case err = <-welcome:
	case <-time.After(20 * time.Second):
		err = errors.New("the sidecar says no welcome")
	}
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

func work(ctx context.Context, conn *grpc.ClientConn, handle func([]byte), welcome chan<- error) {
	stream, err := appv1.NewWorkerClient(conn).Work(ctx)
	if err == nil {
		err = stream.Send(&appv1.AppFrame{Hello: &appv1.Hello{Version: 1, App: "bench"}, EarlierEnded: true})
	}
	if err == nil {
		_, err = stream.Recv()
	}
	welcome <- err
	for err == nil {
		var frame *appv1.SidecarFrame
		if frame, err = stream.Recv(); err != nil || len(frame.GetDeliveries()) == 0 {
			continue
		}
		outcomes := make([]*appv1.Outcome, len(frame.GetDeliveries()))
		for i, d := range frame.GetDeliveries() {
			handle(d.GetPayload())
			outcomes[i] = &appv1.Outcome{DeliveryId: d.GetId(), Result: appv1.Result_RESULT_CONFIRMED}
		}
		err = stream.Send(&appv1.AppFrame{Outcomes: outcomes})
	}
}

func appSocket(stage *trial.Stage, worker int) string {
	return stage.Path(fmt.Sprintf("app-%d.sock", worker))
}

func producerSocket(stage *trial.Stage) string { return stage.Path("producer.sock") }
