package flowstats

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// FuzzReports takes any two reports of producers in: none panics, the newest stays readable, and what is published is one of them.
func FuzzReports(f *testing.F) {
	add := func(a, b *protocolv1.FlowStats) {
		first, err := proto.Marshal(a)
		if err != nil {
			f.Fatal(err)
		}
		second, err := proto.Marshal(b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(first, second)
	}
	add(&protocolv1.FlowStats{PodUid: "a", State: "Running", Epoch: 3, Workers: []*protocolv1.BoundWorker{{PodUid: "w"}}},
		&protocolv1.FlowStats{PodUid: "b", State: "Failed", Epoch: 2, Shared: true, FailureStage: "Load"})
	add(&protocolv1.FlowStats{PodUid: "a", State: "Standby"}, &protocolv1.FlowStats{PodUid: "a", PausedRevisions: []*protocolv1.PausedRevision{{}}})
	add(&protocolv1.FlowStats{}, &protocolv1.FlowStats{Epoch: 1 << 63, DeadLetters: -1})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		registry := NewRegistry(clocktesting.NewFakeClock(time.Unix(0, 0)), time.Second)
		flow := types.NamespacedName{Namespace: "n", Name: "f"}
		for _, raw := range [][]byte{first, second, first} {
			stats := new(protocolv1.FlowStats)
			if proto.Unmarshal(raw, stats) != nil {
				continue
			}
			registry.Accept(flow, stats)
			live, found := registry.Live(flow)
			if !found || live.Connected && live.Stats == nil {
				t.Fatalf("after %v: %+v", stats, live)
			}
			if len(live.Standbys) > 2 {
				t.Fatalf("two members stand by as %d", len(live.Standbys))
			}
			registry.flush()
			if published, found := registry.Published(flow); !found || published.Stats != nil && live.Stats == nil {
				t.Fatalf("published %+v of %+v", published, live)
			}
			registry.Disconnect(flow, stats.PodUid)
		}
	})
}
