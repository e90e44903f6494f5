package handler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	appv1 "github.com/workpulling/workpulling/runtime/protocol/app/v1"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/sidecar/handler"
	"github.com/workpulling/workpulling/sidecar/handler/apptest"
	"github.com/workpulling/workpulling/sidecar/socket"
)

// serve serves streams on a Unix socket until the test ends.
func serve(t testing.TB, options handler.StreamsOptions) (streams *handler.Streams, path string) {
	t.Helper()
	options.Log = logr.Discard()
	streams, path = handler.NewStreams(options), filepath.Join(t.TempDir(), "s")
	server, err := socket.Serve(path, handler.MaxAppFrameBytes, streams.Register)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Run(ctx, 0) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return streams, path
}

// attempt is one call of a handler.
type attempt struct {
	abandon context.CancelCauseFunc
	result  chan endpoint.Result
}

func begin(h endpoint.Handler, d protocol.Delivery) *attempt {
	ctx, cancel := context.WithCancelCause(context.Background())
	a := &attempt{abandon: cancel, result: make(chan endpoint.Result, 1)}
	go func() {
		a.result <- h.Handle(ctx, d)
		cancel(nil)
	}()
	return a
}

func (a *attempt) want(t *testing.T, want endpoint.Result) {
	t.Helper()
	select {
	case got := <-a.result:
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
	case <-time.After(transporttest.Patience):
		t.Fatal("no result")
	}
}

// pending fails if the attempt is over.
func (a *attempt) pending(t *testing.T) {
	t.Helper()
	select {
	case result := <-a.result:
		t.Fatalf("it is over: %+v", result)
	default:
	}
}

var confirmed = endpoint.Result{Outcome: protocol.Confirmed}

func atMost(n uint32) func(*appv1.AppFrame) {
	return func(f *appv1.AppFrame) { f.Hello.MaxDeliveries = n }
}

func TestOutcomesOfAStream(t *testing.T) {
	streams, path := serve(t, handler.StreamsOptions{})
	app := apptest.Start(t, path)
	long := strings.Repeat("x", 5000)
	for name, tc := range map[string]struct {
		outcome *appv1.Outcome
		want    endpoint.Result
	}{
		"confirmed":               {&appv1.Outcome{Result: appv1.Result_RESULT_CONFIRMED, Reason: "fine"}, confirmed},
		"nack":                    {&appv1.Outcome{Result: appv1.Result_RESULT_NACK, Reason: "broken"}, endpoint.Result{Outcome: protocol.Nacked, Reason: "broken"}},
		"reject":                  {&appv1.Outcome{Result: appv1.Result_RESULT_REJECT, Reason: "no such customer"}, endpoint.Result{Outcome: protocol.Rejected, Reason: "no such customer"}},
		"delay":                   {&appv1.Outcome{Result: appv1.Result_RESULT_DELAY, Reason: "busy", RetryAfterMilliseconds: 7500}, endpoint.Result{Outcome: protocol.Delayed, Reason: "busy", RetryAfter: 7500 * time.Millisecond}},
		"a delay of nothing":      {&appv1.Outcome{Result: appv1.Result_RESULT_DELAY}, endpoint.Result{Outcome: protocol.Delayed, RetryAfter: time.Second}},
		"a delay into the past":   {&appv1.Outcome{Result: appv1.Result_RESULT_DELAY, RetryAfterMilliseconds: -1 << 63}, endpoint.Result{Outcome: protocol.Delayed, RetryAfter: time.Second}},
		"a delay for ever":        {&appv1.Outcome{Result: appv1.Result_RESULT_DELAY, RetryAfterMilliseconds: 1<<63 - 1}, endpoint.Result{Outcome: protocol.Delayed, RetryAfter: time.Hour}},
		"hand back":               {&appv1.Outcome{Result: appv1.Result_RESULT_HAND_BACK, Reason: "not mine"}, endpoint.Result{Outcome: protocol.HandedBack, Reason: "not mine"}},
		"a long reason is cut":    {&appv1.Outcome{Result: appv1.Result_RESULT_NACK, Reason: long}, endpoint.Result{Outcome: protocol.Nacked, Reason: long[:protocol.MaxReasonBytes]}},
		"no result is a failure":  {&appv1.Outcome{Reason: "?"}, endpoint.Result{Outcome: protocol.Nacked, Reason: "the app's result is not understood"}},
		"an unknown one is, too":  {&appv1.Outcome{Result: 17}, endpoint.Result{Outcome: protocol.Nacked, Reason: "the app's result is not understood"}},
		"a wait without a delay ": {&appv1.Outcome{Result: appv1.Result_RESULT_NACK, RetryAfterMilliseconds: 1000}, endpoint.Result{Outcome: protocol.Nacked}},
	} {
		t.Run(name, func(t *testing.T) {
			a := begin(streams.For("orders"), delivery())
			tc.outcome.DeliveryId = app.Next(t).GetId()
			app.Answer(t, tc.outcome)
			a.want(t, tc.want)
		})
	}
}

func TestTheAppSeesTheWholeDelivery(t *testing.T) {
	streams, path := serve(t, handler.StreamsOptions{
		Namespace: "shop", Pool: "resize", Concurrency: func() int { return 7 }, Timeout: func() time.Duration { return time.Hour },
	})
	app := apptest.Start(t, path)
	want := &appv1.Welcome{Version: 1, Namespace: "shop", Pool: "resize", Concurrency: 7, MaxFrameBytes: 4 << 20}
	if diff := cmp.Diff(want, app.Welcome, protocmp.Transform()); diff != "" {
		t.Errorf("welcome (-want +got):\n%s", diff)
	}
	a := begin(streams.For("orders"), delivery())
	got := app.Next(t)
	if left := time.Duration(got.GetTimeoutMilliseconds()) * time.Millisecond; left <= time.Hour-transporttest.Patience || left > time.Hour {
		t.Errorf("%v are left of an hour", left)
	}
	got.TimeoutMilliseconds = 0
	slices.SortFunc(got.Headers, func(a, b *appv1.Header) int { return strings.Compare(a.GetKey(), b.GetKey()) })
	if diff := cmp.Diff(&appv1.Delivery{
		Id: 1, MessageId: "orders/17", Namespace: "shop", Flow: "orders", Attempt: 3, Redelivered: true, StoreSequence: 17,
		Payload: []byte(`{"n":17}`),
		Headers: []*appv1.Header{
			{Key: "ce-id", Value: "17"}, {Key: "ce-source", Value: "/orders"}, {Key: "ce-type", Value: "order.placed"},
			{Key: "content-type", Value: "application/json"}, {Key: "traceparent", Value: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		},
	}, got, protocmp.Transform()); diff != "" {
		t.Errorf("delivery (-want +got):\n%s", diff)
	}
	app.Confirm(t, got)
	a.want(t, confirmed)

	plain := delivery()
	plain.Job.Headers = nil
	b := begin(streams.For("returns"), plain)
	if got = app.Next(t); got.GetId() != 2 || got.GetFlow() != "returns" || len(got.GetHeaders()) > 0 {
		t.Errorf("the second delivery is %v", got)
	}
	app.Confirm(t, got)
	b.want(t, confirmed)
}

// What is ready when a frame can be written goes into it together, and so do the answers.
func TestFramesHoldWhatIsReady(t *testing.T) {
	streams, path := serve(t, handler.StreamsOptions{})
	app := apptest.Start(t, path)
	const jobs = 200
	attempts := make([]*attempt, 0, jobs)
	for i := range jobs { // far more than gRPC takes from a sender whose receiver does not read
		d := delivery()
		d.Job.MessageID, d.Job.Payload = fmt.Sprint("job-", i), make([]byte, 4<<10)
		attempts = append(attempts, begin(streams.For("orders"), d))
	}
	transporttest.Eventually(t, "all wait", func() bool { return handler.Load(streams) == jobs })
	largest, frames := 0, 0
	var all []*appv1.Delivery
	for len(all) < jobs {
		got := app.Receive(t).GetDeliveries()
		largest, frames = max(largest, len(got)), frames+1
		all = append(all, got...)
	}
	if largest < 20 {
		t.Errorf("%d deliveries came in %d frames, the largest with %d", jobs, frames, largest)
	}
	for i, d := range all {
		if d.GetId() != uint64(i+1) {
			t.Fatalf("delivery %d has the id %d", i+1, d.GetId())
		}
	}
	app.Confirm(t, all...)
	for _, a := range attempts {
		a.want(t, confirmed)
	}
}

// A frame is not made larger than a client takes by default; a job that is larger than a frame travels alone.
func TestFramesAreBounded(t *testing.T) {
	streams, path := serve(t, handler.StreamsOptions{})
	app := apptest.Start(t, path)
	const jobs = 12
	attempts := make([]*attempt, 0, jobs)
	for i := range jobs {
		d := delivery()
		d.Job.MessageID, d.Job.Payload = fmt.Sprint("job-", i), make([]byte, 700<<10)
		attempts = append(attempts, begin(streams.For("orders"), d))
	}
	for range jobs {
		frame := app.Receive(t)
		if n := len(frame.GetDeliveries()); n != 1 {
			t.Errorf("a frame holds %d deliveries of 700 KiB", n)
		}
		app.Confirm(t, frame.GetDeliveries()...)
	}
	for _, a := range attempts {
		a.want(t, confirmed)
	}
}

// B-182: an abandoned attempt is told to the app, and keeps its slot until that answers.
func TestAnAbandonedAttemptIsToldAndKeepsItsSlot(t *testing.T) {
	streams, path := serve(t, handler.StreamsOptions{})
	app := apptest.Start(t, path, atMost(1))
	a := begin(streams.For("orders"), delivery())
	d := app.Next(t)
	waiting := begin(streams.For("orders"), delivery())
	transporttest.Eventually(t, "the second waits for a slot", func() bool { return handler.Load(streams) == 2 })
	a.abandon(endpoint.ErrAbandoned)
	want := []*appv1.Cancellation{{DeliveryId: d.GetId(), Reason: appv1.CancelReason_CANCEL_REASON_TIMEOUT}}
	frame := app.Receive(t)
	if diff := cmp.Diff(want, frame.GetCancellations(), protocmp.Transform()); diff != "" {
		t.Errorf("cancellations (-want +got):\n%s", diff)
	}
	if len(frame.GetDeliveries()) > 0 {
		t.Error("the slot was given away")
	}
	a.pending(t)
	app.Answer(t, &appv1.Outcome{DeliveryId: d.GetId(), Result: appv1.Result_RESULT_NACK, Reason: "gave up"})
	a.want(t, endpoint.Result{Outcome: protocol.Nacked, Reason: "gave up"})
	app.Confirm(t, app.Next(t))
	waiting.want(t, confirmed)
}

// What the app was never sent comes back when its time is over, and the app never sees it.
func TestAnAttemptThatIsAbandonedUnsentIsHandedBack(t *testing.T) {
	streams, path := serve(t, handler.StreamsOptions{})
	app := apptest.Start(t, path, atMost(1))
	a := begin(streams.For("orders"), delivery())
	first := app.Next(t)
	b := begin(streams.For("orders"), delivery())
	transporttest.Eventually(t, "the second waits for a slot", func() bool { return handler.Load(streams) == 2 })
	b.abandon(endpoint.ErrAbandoned)
	b.want(t, endpoint.Result{Outcome: protocol.HandedBack, Reason: "its time was over before the app could be given it"})
	app.Confirm(t, first)
	a.want(t, confirmed)
	app.Send(t, &appv1.AppFrame{Leaving: true})
	if err := app.End(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
}

// A worker that stops does not wait for the app.
func TestAStopDoesNotWait(t *testing.T) {
	streams, path := serve(t, handler.StreamsOptions{})
	app := apptest.Start(t, path)
	a := begin(streams.For("orders"), delivery())
	app.Next(t)
	a.abandon(context.Canceled)
	a.want(t, endpoint.Result{Outcome: protocol.Nacked, Reason: "the sidecar stopped while the handler was running"})
}

// B-181: the death of the app is a failure of what it was given, and none of what it was not.
func TestADeadApp(t *testing.T) {
	changes := make(chan struct{}, 100)
	streams, path := serve(t, handler.StreamsOptions{Changed: func() { changes <- struct{}{} }})
	if streams.Ready() {
		t.Fatal("an app is ready that never spoke")
	}
	begin(streams.For("orders"), delivery()).want(t, endpoint.Result{Outcome: protocol.HandedBack, Reason: "no process of the app has a stream open"})
	app := apptest.Start(t, path, atMost(2))
	<-changes
	if !streams.Ready() || streams.Capacity() != 2 {
		t.Errorf("ready %v, capacity %d", streams.Ready(), streams.Capacity())
	}
	given := []*attempt{begin(streams.For("orders"), delivery()), begin(streams.For("orders"), delivery())}
	app.Next(t)
	app.Next(t)
	waiting := begin(streams.For("orders"), delivery())
	transporttest.Eventually(t, "the third waits for a slot", func() bool { return handler.Load(streams) == 3 })
	app.Kill()
	for _, a := range given {
		a.want(t, endpoint.Result{Outcome: protocol.Nacked, Reason: "the stream to the app broke"})
	}
	waiting.want(t, endpoint.Result{Outcome: protocol.HandedBack, Reason: "no process of the app has a stream open"})
	<-changes
	if streams.Ready() {
		t.Error("a dead app is ready")
	}
	// Its successor is nobody's replacement: it starts with nothing.
	next := apptest.Start(t, path)
	a := begin(streams.For("orders"), delivery())
	if d := next.Next(t); d.GetId() != 1 {
		t.Errorf("the first delivery of a new stream has the id %d", d.GetId())
	} else {
		next.Confirm(t, d)
	}
	a.want(t, confirmed)
}

func TestStreamsShareTheJobs(t *testing.T) {
	streams, path := serve(t, handler.StreamsOptions{})
	one, two := apptest.Start(t, path, atMost(3)), apptest.Start(t, path, atMost(1))
	transporttest.Eventually(t, "both are open", func() bool { return streams.Capacity() == 4 })
	attempts := make([]*attempt, 0, 5)
	for range 5 {
		attempts = append(attempts, begin(streams.For("orders"), delivery()))
	}
	first := []*appv1.Delivery{one.Next(t), one.Next(t), one.Next(t)}
	two.Next(t)
	transporttest.Eventually(t, "one waits", func() bool { return handler.Load(streams) == 5 })
	two.Kill() // what it had failed, and nobody else gets it
	var failed int
	one.Confirm(t, first[0])
	fifth := one.Next(t)
	one.Confirm(t, first[1], first[2], fifth)
	for _, a := range attempts {
		if result := <-a.result; result.Outcome == protocol.Nacked {
			failed++
		} else if result != confirmed {
			t.Errorf("result %+v", result)
		}
	}
	if failed != 1 {
		t.Errorf("%d failed with the stream that had one", failed)
	}
}

// An app that leaves gets nothing more, answers what it has, and ends well.
func TestLeaving(t *testing.T) {
	streams, path := serve(t, handler.StreamsOptions{})
	app := apptest.Start(t, path, atMost(1))
	a := begin(streams.For("orders"), delivery())
	d := app.Next(t)
	waiting := begin(streams.For("orders"), delivery())
	transporttest.Eventually(t, "the second waits for a slot", func() bool { return handler.Load(streams) == 2 })
	app.Send(t, &appv1.AppFrame{Leaving: true})
	waiting.want(t, endpoint.Result{Outcome: protocol.HandedBack, Reason: "no process of the app has a stream open"})
	if streams.Ready() {
		t.Error("an app that leaves is ready")
	}
	a.pending(t)
	app.Confirm(t, d)
	a.want(t, confirmed)
	if err := app.End(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
}

func TestAStreamThatIsHungUp(t *testing.T) {
	streams, path := serve(t, handler.StreamsOptions{})
	idle := apptest.Start(t, path)
	idle.HangUp(t)
	if err := idle.End(); !errors.Is(err, io.EOF) {
		t.Errorf("an idle stream ended with %v", err)
	}
	transporttest.Eventually(t, "it is gone", func() bool { return !streams.Ready() })
	busy := apptest.Start(t, path)
	a := begin(streams.For("orders"), delivery())
	busy.Next(t)
	busy.HangUp(t)
	if err := busy.End(); status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), "before it had answered 1 deliveries") {
		t.Errorf("a busy stream ended with %v", err)
	}
	a.want(t, endpoint.Result{Outcome: protocol.Nacked, Reason: "the stream to the app broke"})
}

// An outcome that cannot be taken is answered, costs nothing, and the stream goes on.
func TestOutcomesThatAreRefused(t *testing.T) {
	streams, path := serve(t, handler.StreamsOptions{})
	app := apptest.Start(t, path)
	a := begin(streams.For("orders"), delivery())
	first := app.Next(t)
	b := begin(streams.For("orders"), delivery())
	second := app.Next(t)
	app.Confirm(t, first)
	a.want(t, confirmed)
	app.Answer(t,
		&appv1.Outcome{DeliveryId: first.GetId(), Result: appv1.Result_RESULT_NACK},
		&appv1.Outcome{DeliveryId: 99, Result: appv1.Result_RESULT_CONFIRMED},
		&appv1.Outcome{Result: appv1.Result_RESULT_CONFIRMED},
		nil,
		&appv1.Outcome{DeliveryId: second.GetId(), Result: 42},
	)
	want := []appv1.RefusalCode{
		appv1.RefusalCode_REFUSAL_CODE_ALREADY_ANSWERED, appv1.RefusalCode_REFUSAL_CODE_UNKNOWN_DELIVERY, appv1.RefusalCode_REFUSAL_CODE_UNKNOWN_DELIVERY,
		appv1.RefusalCode_REFUSAL_CODE_UNKNOWN_DELIVERY, appv1.RefusalCode_REFUSAL_CODE_UNKNOWN_RESULT,
	}
	var got []appv1.RefusalCode
	for len(got) < len(want) {
		for _, refusal := range app.Receive(t).GetRefusals() {
			if got = append(got, refusal.GetCode()); refusal.GetText() == "" {
				t.Error("a refusal without a word")
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
	b.want(t, endpoint.Result{Outcome: protocol.Nacked, Reason: "the app's result is not understood"})
	c := begin(streams.For("orders"), delivery())
	app.Confirm(t, app.Next(t))
	c.want(t, confirmed)
}

// What breaks the rules of the stream ends it, with a word that says which.
func TestStreamsThatAreEnded(t *testing.T) {
	hello := func(version uint32) *appv1.AppFrame { return &appv1.AppFrame{Hello: &appv1.Hello{Version: version}} }
	for name, tc := range map[string]struct {
		frames []*appv1.AppFrame
		code   codes.Code
		text   string
	}{
		"no hello":       {[]*appv1.AppFrame{{}}, codes.InvalidArgument, "the first frame has to say hello"},
		"another hello":  {[]*appv1.AppFrame{hello(1), hello(1)}, codes.InvalidArgument, "hello belongs into the first frame alone"},
		"a version less": {[]*appv1.AppFrame{hello(0)}, codes.FailedPrecondition, "version 0 of the app API, this sidecar speaks 1"},
		"a version more": {[]*appv1.AppFrame{hello(2)}, codes.FailedPrecondition, "version 2 of the app API, this sidecar speaks 1"},
		"silence":        {nil, codes.DeadlineExceeded, "has not said hello"},
		"a frame too large": {
			[]*appv1.AppFrame{hello(1), {Outcomes: []*appv1.Outcome{{Reason: strings.Repeat("x", handler.MaxAppFrameBytes)}}}},
			codes.ResourceExhausted, "larger than max",
		},
		"nothing but nonsense": {
			[]*appv1.AppFrame{hello(1), {Outcomes: make([]*appv1.Outcome, 5000)}}, codes.ResourceExhausted, "sends outcomes of no deliveries",
		},
	} {
		t.Run(name, func(t *testing.T) {
			patience := transporttest.Patience
			if tc.frames == nil {
				patience = time.Millisecond
			}
			streams, path := serve(t, handler.StreamsOptions{HelloTimeout: patience})
			app := apptest.Connect(t, path)
			for _, frame := range tc.frames {
				app.Send(t, frame)
			}
			if err := app.End(); status.Code(err) != tc.code || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("it ended with %v", err)
			}
			transporttest.Eventually(t, "nothing is left of it", func() bool { return !streams.Ready() && handler.Visitors(streams) == 0 })
		})
	}
}

func TestTheNumberOfStreamsIsBounded(t *testing.T) {
	streams, path := serve(t, handler.StreamsOptions{})
	var apps []*apptest.App
	for range handler.MaxAppStreams {
		apps = append(apps, apptest.Start(t, path))
	}
	if err := apptest.Connect(t, path).End(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one stream more ended with %v", err)
	}
	apps[0].Kill()
	transporttest.Eventually(t, "there is room again", func() bool { return handler.Visitors(streams) < handler.MaxAppStreams })
	apptest.Start(t, path)
}

// A worker that is told to post its jobs lets the streams end in peace, and says to others why there are none.
func TestStreamsAreRefused(t *testing.T) {
	streams, path := serve(t, handler.StreamsOptions{})
	app := apptest.Start(t, path)
	a := begin(streams.For("orders"), delivery())
	d := app.Next(t)
	streams.Refuse(errors.New("the jobs go elsewhere"))
	a.pending(t)
	app.Confirm(t, d)
	a.want(t, confirmed)
	for _, err := range []error{app.End(), apptest.Connect(t, path).End()} {
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "the jobs go elsewhere") {
			t.Errorf("a stream ended with %v", err)
		}
	}
	streams.Refuse(nil)
	apptest.Start(t, path)
}

func TestTheAppSaysThatEarlierHandlersEnded(t *testing.T) {
	var told atomic.Int32
	_, path := serve(t, handler.StreamsOptions{EarlierEnded: func() { told.Add(1) }})
	app := apptest.Start(t, path)
	if told.Load() != 0 {
		t.Fatal("told without a word of the app")
	}
	app.Send(t, &appv1.AppFrame{EarlierEnded: true})
	transporttest.Eventually(t, "told by a later frame", func() bool { return told.Load() == 1 })
	apptest.Start(t, path, func(f *appv1.AppFrame) { f.EarlierEnded = true })
	transporttest.Eventually(t, "told by the first frame", func() bool { return told.Load() == 2 })
}
