package endpoint_test

import (
	"testing"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// I-12: a pod that opens stream after stream keeps the newest few; what it has beyond them, and other pods, are not touched.
func TestOnePodKeepsAFewStreams(t *testing.T) {
	f := newFlow(t, memoryQueue(t))
	f.start(t)
	c := newCrew()
	other, _ := c.join(t, f, "other", succeed)
	eventually(t, "the other pod is bound", func() bool { return other.Status().Registered })
	var streams []*transport.WorkerStream
	for range 20 {
		stream, err := f.peer(t, "pod:greedy").DialWorker(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stream.Close)
		streams = append(streams, stream)
	}
	eventually(t, "few streams are left", func() bool { return f.stats(t).TrackedStreams == 8+1 })
	if _, err := streams[0].Recv(); err == nil {
		t.Error("the oldest stream goes on")
	}
	newest := streams[len(streams)-1]
	if err := newest.Send(protocol.RegisterConsumer{
		Version: protocol.Version, Nonce: "n", Incarnation: protocol.Incarnation{PodUID: "greedy", BootNonce: "boot"}, Window: 1,
	}); err != nil {
		t.Fatal(err)
	}
	if m, err := newest.Recv(); err != nil {
		t.Errorf("the newest stream: %v, %v", m, err)
	}
	for _, stream := range streams {
		stream.Close()
	}
	eventually(t, "its streams are forgotten", func() bool { return f.stats(t).TrackedStreams == 1 })
	if !other.Status().Registered {
		t.Error("the other pod has lost its binding")
	}
}
