package producer_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/queue/local"
)

// A producer that finds its volume in use says who has it, lives on, and works as soon as that process has let it go.
func TestAProducerWaitsForItsVolume(t *testing.T) {
	p := newPod(t)
	p.configure(nil)
	former, err := local.Open(t.Context(), local.Options{Dir: p.options.DataDir, FlowUID: "flow-uid", Holder: "pod orders-producer-0 of UID former on node n1"})
	if err != nil {
		t.Fatal(err)
	}
	p.launch()
	p.until("it says who has the volume", func() bool {
		s := p.operator.stats()
		return s.GetQueueCode() == runtimeconfig.QueueLocked && s.GetState() == "Loading" && !s.GetQueueAvailable() &&
			strings.Contains(s.GetQueueMessage(), "pod orders-producer-0 of UID former on node n1")
	})
	gauge := func(want string) {
		t.Helper()
		if _, text := p.get("http://" + p.options.MetricsAddress + "/metrics"); !strings.Contains(text, "\nworkpulling_flow_queue_locked "+want+"\n") {
			t.Errorf("the metric is not %s:\n%s", want, text)
		}
	}
	gauge("1")
	if status, text := p.get("http://" + p.options.HealthAddress + "/healthz"); status != http.StatusOK {
		t.Errorf("a producer that waits is not alive: %s", text)
	}
	if err := former.Close(); err != nil {
		t.Fatal(err)
	}
	p.until("it works", func() bool {
		s := p.operator.stats()
		return s.GetQueueCode() == "" && s.GetState() == "Running" && s.GetQueueAvailable()
	})
	gauge("0")
}
