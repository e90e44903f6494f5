package control_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// FuzzRequests decodes any bytes as each request: nothing panics, and only one that names this very pod changes anything.
func FuzzRequests(f *testing.F) {
	for _, uid := range []string{"uid", "another", ""} {
		raw, err := proto.Marshal(&protocolv1.StartDrainRequest{ExpectedPodUid: uid})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte{0x0a, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, raw []byte) {
		w := &worker{}
		s := serve(w)
		cordon, drain, uncordon := &protocolv1.CordonIfIdleRequest{}, &protocolv1.StartDrainRequest{}, &protocolv1.UncordonRequest{}
		allowed := 0
		if proto.Unmarshal(raw, cordon) == nil {
			_, _ = s.CordonIfIdle(t.Context(), cordon)
			allowed += named(cordon.GetExpectedPodUid())
		}
		if proto.Unmarshal(raw, drain) == nil {
			_, _ = s.StartDrain(t.Context(), drain)
			allowed += named(drain.GetExpectedPodUid())
		}
		if proto.Unmarshal(raw, uncordon) == nil {
			_, _ = s.Uncordon(t.Context(), uncordon)
			allowed += named(uncordon.GetExpectedPodUid())
		}
		if len(w.deeds) != allowed {
			t.Errorf("%x: did %v, %d requests name the pod", raw, w.deeds, allowed)
		}
	})
}

func named(uid string) int {
	if uid == "uid" {
		return 1
	}
	return 0
}
