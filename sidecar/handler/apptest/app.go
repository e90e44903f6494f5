// Package apptest is a process of an app that works over workpulling.app.v1, for tests and measurements.
package apptest

import (
	"context"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	appv1 "github.com/workpulling/workpulling/runtime/protocol/app/v1"
)

// App is one process of an app with one stream. It is used by one goroutine, but Kill and Send may come from another.
type App struct {
	Welcome *appv1.Welcome
	stream  appv1.Worker_WorkClient
	conn    *grpc.ClientConn
	queue   []*appv1.Delivery
	frames  atomic.Int64
}

// Frames counts the frames with deliveries that Run has answered.
func (a *App) Frames() int64 { return a.frames.Load() }

// Connect opens a stream at the socket and says nothing yet. It ends with the test.
func Connect(t testing.TB, socket string) *App {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := appv1.NewWorkerClient(conn).Work(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		conn.Close()
	})
	return &App{stream: stream, conn: conn}
}

// Start connects and says hello, with what edit makes of the first frame.
func Start(t testing.TB, socket string, edit ...func(*appv1.AppFrame)) *App {
	t.Helper()
	a := Connect(t, socket)
	frame := &appv1.AppFrame{Hello: &appv1.Hello{Version: 1, App: "apptest"}}
	for _, e := range edit {
		e(frame)
	}
	a.Send(t, frame)
	a.Welcome = a.Receive(t).GetWelcome()
	if a.Welcome == nil {
		t.Fatal("the sidecar's first frame is no welcome")
	}
	return a
}

// Send sends one frame.
func (a *App) Send(t testing.TB, frame *appv1.AppFrame) {
	t.Helper()
	if err := a.stream.Send(frame); err != nil {
		t.Fatalf("sending to the sidecar: %v", err)
	}
}

// Receive waits for the next frame.
func (a *App) Receive(t testing.TB) *appv1.SidecarFrame {
	t.Helper()
	frame, err := a.stream.Recv()
	if err != nil {
		t.Fatalf("the stream ended: %v", err)
	}
	return frame
}

// Next waits for the next delivery.
func (a *App) Next(t testing.TB) *appv1.Delivery {
	t.Helper()
	for len(a.queue) == 0 {
		a.queue = a.Receive(t).GetDeliveries()
	}
	d := a.queue[0]
	a.queue = a.queue[1:]
	return d
}

// Answer sends outcomes in one frame.
func (a *App) Answer(t testing.TB, outcomes ...*appv1.Outcome) {
	t.Helper()
	a.Send(t, &appv1.AppFrame{Outcomes: outcomes})
}

// Confirm confirms deliveries in one frame.
func (a *App) Confirm(t testing.TB, deliveries ...*appv1.Delivery) {
	t.Helper()
	outcomes := make([]*appv1.Outcome, 0, len(deliveries))
	for _, d := range deliveries {
		outcomes = append(outcomes, Confirmed(d))
	}
	a.Answer(t, outcomes...)
}

// Confirmed is the outcome of a job that is done.
func Confirmed(d *appv1.Delivery) *appv1.Outcome {
	return &appv1.Outcome{DeliveryId: d.GetId(), Result: appv1.Result_RESULT_CONFIRMED}
}

// Run answers every delivery with what do says, a frame for a frame, until the stream ends.
func (a *App) Run(do func(*appv1.Delivery) *appv1.Outcome) error {
	for {
		frame, err := a.stream.Recv()
		if err != nil {
			return err
		}
		answer := &appv1.AppFrame{}
		for _, d := range frame.GetDeliveries() {
			if outcome := do(d); outcome != nil {
				answer.Outcomes = append(answer.Outcomes, outcome)
			}
		}
		if len(answer.GetOutcomes()) == 0 {
			continue
		}
		a.frames.Add(1)
		if err := a.stream.Send(answer); err != nil {
			return err
		}
	}
}

// End reads to the end of the stream and returns how it ended: io.EOF for well.
func (a *App) End() error {
	for {
		if _, err := a.stream.Recv(); err != nil {
			return err
		}
	}
}

// HangUp ends the app's half of the stream.
func (a *App) HangUp(t testing.TB) {
	t.Helper()
	if err := a.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
}

// Kill breaks the connection, as the end of the process does.
func (a *App) Kill() { a.conn.Close() }
