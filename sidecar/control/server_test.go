package control_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/sidecar/control"
)

// worker notes what it is asked to do.
type worker struct {
	status delivery.ConsumerStatus
	deeds  []string
}

func (w *worker) Status() delivery.ConsumerStatus { return w.status }
func (w *worker) StartDrain()                     { w.deeds = append(w.deeds, "drain") }
func (w *worker) Uncordon()                       { w.deeds = append(w.deeds, "uncordon") }
func (w *worker) Now() delivery.Now               { return time.Minute }

func (w *worker) CordonIfIdle(context.Context) (bool, delivery.ConsumerStatus) {
	w.deeds = append(w.deeds, "cordon")
	return w.status.Idle, w.status
}

func serve(w *worker) *control.Server {
	return control.NewServer(w, protocol.Incarnation{PodUID: "uid", BootNonce: "boot"}, func() string { return "hash" })
}

// A call that names another pod changes nothing: the address may have been given to another one.
func TestCallsForAnotherPodChangeNothing(t *testing.T) {
	for _, uid := range []string{"", "another"} {
		w := &worker{}
		s := serve(w)
		_, cordon := s.CordonIfIdle(t.Context(), &protocolv1.CordonIfIdleRequest{ExpectedPodUid: uid})
		_, drain := s.StartDrain(t.Context(), &protocolv1.StartDrainRequest{ExpectedPodUid: uid})
		_, uncordon := s.Uncordon(t.Context(), &protocolv1.UncordonRequest{ExpectedPodUid: uid})
		for name, err := range map[string]error{"cordon": cordon, "drain": drain, "uncordon": uncordon} {
			if status.Code(err) != codes.FailedPrecondition {
				t.Errorf("%s for pod %q: %v", name, uid, err)
			}
		}
		if len(w.deeds) != 0 {
			t.Errorf("pod %q: done %v", uid, w.deeds)
		}
	}
}

func TestStatusSaysHowLongAWorkerIsIdle(t *testing.T) {
	const since = 20 * time.Second
	for name, c := range map[string]struct {
		status delivery.ConsumerStatus
		want   int64
	}{
		"idle":             {delivery.ConsumerStatus{Idle: true, EverRegistered: true, IdleSince: since}, 40},
		"busy":             {delivery.ConsumerStatus{EverRegistered: true, IdleSince: since, Running: 1}, 0},
		"never registered": {delivery.ConsumerStatus{Idle: true, IdleSince: since}, 0},
	} {
		got, err := serve(&worker{status: c.status}).GetStatus(t.Context(), &protocolv1.GetStatusRequest{})
		if err != nil || got.GetIdleSeconds() != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestDeedsAreDoneAndDescribed(t *testing.T) {
	w := &worker{status: delivery.ConsumerStatus{
		Registered: true, EverRegistered: true, AppReady: true, Running: 1, Buffered: 2, Unsettled: 3, Cordoned: true, Draining: true, Drained: true,
	}}
	s := serve(w)
	want := &protocolv1.WorkerStatus{
		PodUid: "uid", BootNonce: "boot", ConfigHash: "hash", Registered: true, AppReady: true, Running: 1, Buffered: 2, Unsettled: 3,
		Cordoned: true, Draining: true, Drained: true,
	}
	reply, err := s.CordonIfIdle(t.Context(), &protocolv1.CordonIfIdleRequest{ExpectedPodUid: "uid"})
	if err != nil || reply.GetCordoned() {
		t.Errorf("a busy worker: %v, %v", reply, err)
	}
	drained, err := s.StartDrain(t.Context(), &protocolv1.StartDrainRequest{ExpectedPodUid: "uid"})
	if err != nil {
		t.Error(err)
	}
	uncordoned, err := s.Uncordon(t.Context(), &protocolv1.UncordonRequest{ExpectedPodUid: "uid"})
	if err != nil {
		t.Error(err)
	}
	for _, got := range []*protocolv1.WorkerStatus{reply.GetStatus(), drained, uncordoned} {
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff([]string{"cordon", "drain", "uncordon"}, w.deeds); diff != "" {
		t.Errorf("deeds (-want +got):\n%s", diff)
	}
}
