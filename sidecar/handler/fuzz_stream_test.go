package handler

import (
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	appv1 "github.com/workpulling/workpulling/runtime/protocol/app/v1"
)

// FuzzAppFrame takes any frame of an app that has three deliveries: each is answered at most once, by what may be sent on, and only if the
// frame names it; no frame makes the sidecar keep more for the app than its bound.
func FuzzAppFrame(f *testing.F) {
	for _, frame := range []*appv1.AppFrame{
		{},
		{Hello: &appv1.Hello{Version: 1, MaxDeliveries: 1 << 31, App: "\x00"}, Leaving: true, EarlierEnded: true},
		{Outcomes: []*appv1.Outcome{{DeliveryId: 1, Result: 1}, {DeliveryId: 1, Result: 2}, {DeliveryId: 2, Result: 4, RetryAfterMilliseconds: -1 << 63}}},
		{Outcomes: []*appv1.Outcome{{DeliveryId: 3, Result: 99, Reason: "?"}, {DeliveryId: 1 << 63}, nil}},
		{Outcomes: make([]*appv1.Outcome, 2*maxUnread)},
	} {
		raw, err := proto.Marshal(frame)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var frame appv1.AppFrame
		if proto.Unmarshal(raw, &frame) != nil {
			return
		}
		s := NewStreams(StreamsOptions{})
		st := &stream{owner: s, wake: make(chan struct{}, 1), sent: map[uint64]*attempt{}}
		s.open = []*stream{st}
		var attempts []*attempt
		for range 3 {
			a := &attempt{answer: make(chan endpoint.Result, 1)}
			attempts = append(attempts, a)
			s.assign(a)
		}
		st.deliveries()
		named := map[uint64]bool{}
		for _, outcome := range frame.GetOutcomes() {
			named[outcome.GetDeliveryId()] = true
		}
		_ = st.take(&frame)
		if len(st.refusals) > maxUnread {
			t.Errorf("%d refusals", len(st.refusals))
		}
		s.visitors++
		s.leave(st)
		for _, a := range attempts {
			result := <-a.answer
			if named[a.id] == (result.Reason == reasonBroken && !told(&frame, a.id)) {
				t.Errorf("delivery %d, named %v, ended with %+v", a.id, named[a.id], result)
			}
			if result.Outcome < protocol.Confirmed || result.Outcome > protocol.Delayed || result.Outcome == protocol.Abandoned {
				t.Errorf("outcome %d", result.Outcome)
			}
			if result.RetryAfter != 0 && (result.RetryAfter < time.Second || result.RetryAfter > maxDelay) {
				t.Errorf("a wait of %v", result.RetryAfter)
			}
			if !utf8.ValidString(result.Reason) || len(result.Reason) > protocol.MaxReasonBytes {
				t.Errorf("reason %q", result.Reason)
			}
			select {
			case second := <-a.answer:
				t.Errorf("delivery %d ended twice, then with %+v", a.id, second)
			default:
			}
		}
	})
}

// told reports whether the frame itself gives the reason of a broken stream.
func told(frame *appv1.AppFrame, id uint64) bool {
	for _, outcome := range frame.GetOutcomes() {
		if outcome.GetDeliveryId() == id && outcome.GetReason() == reasonBroken {
			return true
		}
	}
	return false
}
