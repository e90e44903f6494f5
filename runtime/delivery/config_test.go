package delivery

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// G-180…G-184, G-191: the defaults of the options, and what becomes of numbers that would stop a machine.
func TestOptionsHaveSaneDefaultsAndBounds(t *testing.T) {
	c := DefaultControllerConfig()
	if c.RetryInterval != 500*time.Millisecond || c.QueueAttempts != 3 || c.QueueBackoff != 100*time.Millisecond || c.DeliveryConfirmation ||
		c.MaxWindow != protocol.MaxFlowControlWindow || c.Dispatch != RoundRobin {
		t.Errorf("defaults of the controller %+v", c)
	}
	w := DefaultConsumerConfig()
	if w.Window != 50 || w.ResendInterval != 2*time.Second || w.Concurrency != 1 {
		t.Errorf("defaults of the consumer %+v", w)
	}
	// A configuration that is already sane stays as it is; one of zeros becomes the default where zero has no meaning.
	if diff := cmp.Diff(c, c.sane()); diff != "" {
		t.Errorf("the default is changed:\n%s", diff)
	}
	zero := ControllerConfig{}.sane()
	zero.BacklogJobs, zero.BacklogBytes, zero.MaxAttempts = c.BacklogJobs, c.BacklogBytes, c.MaxAttempts // 0 is a choice
	if diff := cmp.Diff(c, zero); diff != "" {
		t.Errorf("zeros (-default +got):\n%s", diff)
	}
	negative := ControllerConfig{
		RetryInterval: -1, BacklogJobs: -1, BacklogBytes: -1, MaxPayloadBytes: -1, MemoryBytes: -1, MaxAttempts: -1, BackoffInitial: time.Minute,
		BackoffMax: time.Second, Heartbeat: -1, Deadline: -1, MaxWindow: 1 << 20, QueueAttempts: -1, QueueBackoff: -1, MaxBatch: -1,
		MaxFrameBytes: -1, Dispatch: "Random",
	}.sane()
	want := c
	want.BacklogJobs, want.BacklogBytes, want.MaxAttempts = 0, 0, 0
	want.BackoffInitial, want.BackoffMax = time.Minute, time.Minute
	if diff := cmp.Diff(want, negative); diff != "" {
		t.Errorf("nonsense (-want +got):\n%s", diff)
	}
	if got := (ConsumerConfig{Window: 1 << 20}).sane().Window; got != protocol.MaxFlowControlWindow {
		t.Errorf("window %d", got)
	}
	if got := (ConsumerConfig{}).sane(); got.Window != 50 || got.HandlerTimeout != 0 {
		t.Errorf("zeros of the consumer %+v", got)
	}
}
