package worker_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	appv1 "github.com/workpulling/workpulling/runtime/protocol/app/v1"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/sidecar/handler/apptest"
)

// streaming gives the rig an app that opens streams; the test plays it. It is not ready before the first.
func streaming(r *rig, _ *transporttest.Authority) {
	r.document.Handler, r.document.HandlerPort, r.document.HandlerPath = runtimeconfig.HandlerStream, 0, ""
	r.unready = true
}

// ledger counts what an app was given, by MessageID.
type ledger struct {
	mu   sync.Mutex
	runs map[string]int
}

func (l *ledger) confirm(d *appv1.Delivery) *appv1.Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs == nil {
		l.runs = map[string]int{}
	}
	l.runs[d.GetMessageId()]++
	if string(d.GetPayload()) != "payload of "+d.GetMessageId() {
		return &appv1.Outcome{DeliveryId: d.GetId(), Result: appv1.Result_RESULT_REJECT}
	}
	return apptest.Confirmed(d)
}

func names(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("job-%03d", i)
	}
	return ids
}

// work lets an app confirm whatever comes until its stream ends.
func work(t *testing.T, app *apptest.App, l *ledger) {
	t.Helper()
	var working sync.WaitGroup
	working.Go(func() { _ = app.Run(l.confirm) })
	t.Cleanup(func() {
		app.Kill()
		working.Wait()
	})
}

func TestJobsReachTheAppOverStreams(t *testing.T) {
	r := start(t, streaming)
	if code := r.probe("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("readyz without a stream = %d", code)
	}
	var l ledger
	work(t, apptest.Start(t, r.AppSocket), &l)
	work(t, apptest.Start(t, r.AppSocket), &l)
	transporttest.Eventually(t, "the sidecar is ready", func() bool { return r.probe("/readyz") == http.StatusOK })
	ids := names(200)
	r.flow.submit(t, ids...)
	transporttest.Eventually(t, "everything is confirmed", func() bool { return r.flow.stats(t).Confirmed == uint64(len(ids)) })
	for _, id := range ids {
		if n := l.runs[id]; n != 1 {
			t.Errorf("%s ran %d times", id, n)
		}
	}
	if n := r.app.seen(); n > 0 {
		t.Errorf("%d jobs were posted", n)
	}
	if text := r.metrics(t); !strings.Contains(text, "workpulling_worker_app_streams 2\n") {
		t.Errorf("metrics:\n%s", text)
	}
}

// An app that dies in the middle costs its jobs an attempt, and whoever comes next gets them.
func TestAnAppThatDiesInTheMiddle(t *testing.T) {
	r := start(t, streaming)
	app := apptest.Start(t, r.AppSocket)
	r.flow.submit(t, "a", "b", "c")
	given := []*appv1.Delivery{app.Next(t), app.Next(t)}
	app.Kill()
	transporttest.Eventually(t, "nothing runs, and nothing is taken", func() bool {
		s := r.status(t)
		return s.GetRunning() == 0 && !s.GetAppReady() && r.probe("/readyz") == http.StatusServiceUnavailable
	})
	next := apptest.Start(t, r.AppSocket)
	again := map[string]*appv1.Delivery{}
	for range 3 {
		d := next.Next(t)
		again[d.GetMessageId()] = d
		next.Confirm(t, d)
	}
	transporttest.Eventually(t, "all are confirmed", func() bool { return r.flow.stats(t).Confirmed == 3 })
	for _, d := range given {
		if d := again[d.GetMessageId()]; d.GetAttempt() != 2 || !d.GetRedelivered() {
			t.Errorf("%s came again as attempt %d", d.GetMessageId(), d.GetAttempt())
		}
	}
	if d := again["c"]; d.GetAttempt() != 1 {
		t.Errorf("c, which no app was given, came as attempt %d", d.GetAttempt())
	}
}

// A stream that wants less than the pool allows is not given more, and nothing waits in the sidecar for it.
func TestTheWorkerTakesAsManyAsTheAppWants(t *testing.T) {
	r := start(t, streaming, func(r *rig, _ *transporttest.Authority) { r.document.Concurrency = 8 })
	wants := func(n uint32) func(*appv1.AppFrame) { return func(f *appv1.AppFrame) { f.Hello.MaxDeliveries = n } }
	one := apptest.Start(t, r.AppSocket, wants(1))
	r.flow.submit(t, names(8)...)
	first := one.Next(t)
	two := apptest.Start(t, r.AppSocket, wants(2))
	second, third := two.Next(t), two.Next(t)
	if got := r.status(t).GetRunning(); got != 3 {
		t.Errorf("%d run, the app wants 3", got)
	}
	two.Confirm(t, second, third)
	one.Confirm(t, first)
	var l ledger
	work(t, one, &l)
	work(t, two, &l)
	transporttest.Eventually(t, "all are confirmed", func() bool { return r.flow.stats(t).Confirmed == 8 })
}

// An attempt past its timeout is told to the app and goes elsewhere; its slot stays taken until the app answers, and its late answer
// is no answer.
func TestATimeoutIsToldToTheApp(t *testing.T) {
	r := start(t, streaming, func(r *rig, _ *transporttest.Authority) { r.document.Concurrency, r.document.HandlerTimeoutSec = 1, 1 })
	app := apptest.Start(t, r.AppSocket)
	r.flow.submit(t, "a")
	d := app.Next(t)
	if ms := d.GetTimeoutMilliseconds(); ms < 1 || ms > 1000 {
		t.Errorf("%d ms are left of a second", ms)
	}
	if c := app.Receive(t).GetCancellations(); len(c) != 1 || c[0].GetDeliveryId() != d.GetId() || c[0].GetReason() != appv1.CancelReason_CANCEL_REASON_TIMEOUT {
		t.Fatalf("cancellations %v", c)
	}
	transporttest.Eventually(t, "the flow knows", func() bool { return r.flow.stats(t).InFlight == 0 })
	if got := r.status(t).GetRunning(); got != 1 {
		t.Errorf("%d slots are taken, want the one of the abandoned attempt", got)
	}
	app.Confirm(t, d)
	again := app.Next(t)
	if again.GetMessageId() != "a" || again.GetAttempt() != 2 {
		t.Errorf("then came %s, attempt %d", again.GetMessageId(), again.GetAttempt())
	}
	app.Confirm(t, again)
	transporttest.Eventually(t, "it is confirmed once", func() bool { return r.flow.stats(t).Confirmed == 1 })
}

// B-087, B-088: a sidecar that starts anew does not hand out what an app may still be at, and takes the app's word for its end.
func TestASidecarRestartUnderAStreamingApp(t *testing.T) {
	r := start(t, streaming, func(r *rig, _ *transporttest.Authority) { r.StopTimeout = time.Millisecond })
	app := apptest.Start(t, r.AppSocket)
	r.flow.submit(t, "a")
	if d := app.Next(t); d.GetMessageId() != "a" {
		t.Fatalf("given %v", d)
	}
	r.end(t)
	if err := app.End(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
	r.Incarnation.BootNonce = "boot-2"
	r.run()
	transporttest.Eventually(t, "the next sidecar is there", func() bool {
		status, err := r.control.GetStatus(t.Context(), &protocolv1.GetStatusRequest{})
		return err == nil && status.GetBootNonce() == "boot-2"
	})
	again := apptest.Start(t, r.AppSocket)
	r.flow.submit(t, "b")
	if d := again.Next(t); d.GetMessageId() != "b" {
		t.Fatalf("the free slot got %s", d.GetMessageId())
	} else {
		again.Confirm(t, d)
	}
	transporttest.Eventually(t, "a waits elsewhere", func() bool { s := r.flow.stats(t); return s.Confirmed == 1 && s.DelayedJobs == 1 })
	again.Send(t, &appv1.AppFrame{EarlierEnded: true})
	d := again.Next(t)
	if d.GetMessageId() != "a" {
		t.Errorf("then came %s", d.GetMessageId())
	}
	again.Confirm(t, d)
	transporttest.Eventually(t, "both are confirmed", func() bool { return r.flow.stats(t).Confirmed == 2 })
}

// An app that does not read holds its slots, and the rest stays with the flow: the sidecar keeps nothing for it.
func TestAnAppThatDoesNotRead(t *testing.T) {
	r := start(t, streaming, func(r *rig, _ *transporttest.Authority) { r.document.Concurrency, r.document.Window = 4, 8 })
	app := apptest.Start(t, r.AppSocket)
	ids := names(100)
	r.flow.submit(t, ids...)
	transporttest.Eventually(t, "the slots are taken", func() bool { return r.status(t).GetRunning() == 4 })
	transporttest.Eventually(t, "the rest is in the backlog", func() bool { return r.flow.stats(t).BacklogJobs == len(ids)-8 })
	if s := r.status(t); s.GetUnsettled() != 8 {
		t.Errorf("the worker holds %d, its window is 8", s.GetUnsettled())
	}
	var l ledger
	work(t, app, &l)
	transporttest.Eventually(t, "everything is confirmed", func() bool { return r.flow.stats(t).Confirmed == uint64(len(ids)) })
}

// A drain lets the app finish what it has, over streams as over HTTP.
func TestADrainLetsTheStreamsFinish(t *testing.T) {
	r := start(t, streaming)
	app := apptest.Start(t, r.AppSocket)
	r.flow.submit(t, "a", "b", "c")
	given := []*appv1.Delivery{app.Next(t), app.Next(t)}
	r.stop()
	transporttest.Eventually(t, "the unstarted went back", func() bool { return r.flow.stats(t).BacklogJobs == 1 })
	app.Confirm(t, given...)
	transporttest.Eventually(t, "the running were confirmed", func() bool { return r.flow.stats(t).Confirmed == 2 })
	if err := app.End(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ended with %v", err)
	}
}

// The handler of a pool may change while its workers run.
func TestAnEditMovesTheJobsToStreamsAndBack(t *testing.T) {
	r := start(t)
	if err := apptest.Connect(t, r.AppSocket).End(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a stream that nobody wants ended with %v", err)
	}
	r.flow.submit(t, "a")
	transporttest.Eventually(t, "a was posted", func() bool { return r.flow.stats(t).Confirmed == 1 })

	posted := r.document
	streaming(r, nil)
	hash := r.configure(t)
	transporttest.Eventually(t, "the edit arrived", func() bool { return r.status(t).GetConfigHash() == hash })
	transporttest.Eventually(t, "no stream, not ready", func() bool { return r.probe("/readyz") == http.StatusServiceUnavailable })
	app := apptest.Start(t, r.AppSocket)
	r.flow.submit(t, "b")
	d := app.Next(t)
	app.Confirm(t, d)
	transporttest.Eventually(t, "b came over the stream", func() bool { return r.flow.stats(t).Confirmed == 2 })

	r.document = posted
	r.configure(t)
	if err := app.End(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("the stream ended with %v", err)
	}
	r.flow.submit(t, "c")
	transporttest.Eventually(t, "c was posted", func() bool { return r.flow.stats(t).Confirmed == 3 && r.app.started("c") == 1 })
}
