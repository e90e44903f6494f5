package delivery

import (
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// ControllerConfig holds the tunables of the Controller. The zero value is not usable: start from DefaultControllerConfig.
type ControllerConfig struct {
	// RetryInterval repeats RequestNext and Stored toward producer endpoints (500 ms; G-031, G-035).
	RetryInterval time.Duration
	// DeliveryConfirmation sends DeliveryConfirmed to endpoints that ask (off; G-110).
	DeliveryConfirmation bool
	// BacklogJobs and BacklogBytes bound what is admitted while no worker has demand (1,000,000 and 1 GiB); both 0 is the
	// seeds' strict rule: no demand, no grant.
	BacklogJobs  int
	BacklogBytes int64
	// MaxPayloadBytes refuses larger payloads at the door (1 MiB).
	MaxPayloadBytes int
	// MemoryBytes is how much backlog payload stays in memory; the rest is read back when its turn comes (64 MiB).
	MemoryBytes int64
	// MaxAttempts is how many counted attempts a job gets before it becomes a dead letter (20; 0 = never give up). Uncounted
	// deliveries are capped at five times that.
	MaxAttempts int
	// BackoffInitial and BackoffMax bound the exponential, jittered wait after a failed attempt (1 s, 5 min).
	BackoffInitial, BackoffMax time.Duration
	// Heartbeat and Deadline are the liveness of bindings (2 s, 10 s).
	Heartbeat, Deadline time.Duration
	// MaxWindow caps every worker's flow-control window (10,000).
	MaxWindow int
	// Dispatch says whose turn it is among the workers with free demand (RoundRobin).
	Dispatch Dispatch
	// QueueAttempts and QueueBackoff retry a failing operation of the durable lane (3, 100 ms; G-183).
	QueueAttempts int
	QueueBackoff  time.Duration
	// IsolateConfirmAfter isolates a confirm that keeps failing (60 s).
	IsolateConfirmAfter time.Duration
	// MaxBatch is the most operations in one ApplyBatch (1,024).
	MaxBatch int
	// MaxFrameBytes bounds the payload bytes of one SequencedMessage (1 MiB); one delivery always fits.
	MaxFrameBytes int
}

// DefaultControllerConfig returns the defaults stated at the fields.
func DefaultControllerConfig() ControllerConfig {
	return ControllerConfig{
		RetryInterval:       500 * time.Millisecond,
		BacklogJobs:         1_000_000,
		BacklogBytes:        1 << 30,
		MaxPayloadBytes:     1 << 20,
		MemoryBytes:         64 << 20,
		MaxAttempts:         20,
		BackoffInitial:      time.Second,
		BackoffMax:          5 * time.Minute,
		Heartbeat:           2 * time.Second,
		Deadline:            10 * time.Second,
		MaxWindow:           10_000,
		Dispatch:            RoundRobin,
		QueueAttempts:       3,
		QueueBackoff:        100 * time.Millisecond,
		IsolateConfirmAfter: time.Minute,
		MaxBatch:            1024,
		MaxFrameBytes:       1 << 20,
	}
}

// ConsumerConfig holds the tunables of the Consumer. The zero value is not usable: start from DefaultConsumerConfig.
type ConsumerConfig struct {
	// Window is the flow-control window: most unsettled deliveries held (50; 1…10,000; G-180).
	Window int
	// Concurrency is the most handlers at a time (1).
	Concurrency int
	// ResendInterval is the tick of re-registration and resend (2 s; G-181); it backs off ×1.5 to 30 s while idle.
	ResendInterval time.Duration
	// HandlerTimeout abandons an attempt that runs longer (5 min; 0 = never).
	HandlerTimeout time.Duration
	// ConfirmDelay is the longest that a settlement waits for company (5 ms).
	ConfirmDelay time.Duration
	// MaxProducers is how many producers are remembered (1,024; 0 = no limit), ProducerIdle for how long a silent one is (5 min; 0 = for
	// ever), of all flows together.
	MaxProducers int
	ProducerIdle time.Duration
}

// DefaultConsumerConfig returns the defaults stated at the fields.
func DefaultConsumerConfig() ConsumerConfig {
	return ConsumerConfig{
		Window:         50,
		Concurrency:    1,
		ResendInterval: 2 * time.Second,
		HandlerTimeout: 5 * time.Minute,
		ConfirmDelay:   5 * time.Millisecond,
		MaxProducers:   1024,
		ProducerIdle:   5 * time.Minute,
	}
}

// sane replaces what would stop a machine by the default.
func (c ControllerConfig) sane() ControllerConfig {
	d := DefaultControllerConfig()
	orDefault(&c.RetryInterval, d.RetryInterval)
	orDefault(&c.MaxPayloadBytes, d.MaxPayloadBytes)
	orDefault(&c.MemoryBytes, d.MemoryBytes)
	orDefault(&c.BackoffInitial, d.BackoffInitial)
	orDefault(&c.BackoffMax, d.BackoffMax)
	orDefault(&c.Heartbeat, d.Heartbeat)
	orDefault(&c.Deadline, d.Deadline)
	orDefault(&c.MaxWindow, d.MaxWindow)
	orDefault(&c.QueueAttempts, d.QueueAttempts)
	orDefault(&c.QueueBackoff, d.QueueBackoff)
	orDefault(&c.IsolateConfirmAfter, d.IsolateConfirmAfter)
	orDefault(&c.MaxBatch, d.MaxBatch)
	orDefault(&c.MaxFrameBytes, d.MaxFrameBytes)
	c.BacklogJobs, c.BacklogBytes, c.MaxAttempts = max(0, c.BacklogJobs), max(0, c.BacklogBytes), max(0, c.MaxAttempts)
	c.BackoffMax = max(c.BackoffMax, c.BackoffInitial)
	c.MaxWindow = min(c.MaxWindow, protocol.MaxFlowControlWindow)
	if c.Dispatch != LeastOutstanding {
		c.Dispatch = RoundRobin
	}
	return c
}

func (c ConsumerConfig) sane() ConsumerConfig {
	d := DefaultConsumerConfig()
	orDefault(&c.Window, d.Window)
	orDefault(&c.Concurrency, d.Concurrency)
	orDefault(&c.ResendInterval, d.ResendInterval)
	orDefault(&c.ConfirmDelay, d.ConfirmDelay)
	c.Window = min(c.Window, protocol.MaxFlowControlWindow)
	c.HandlerTimeout = max(0, c.HandlerTimeout)
	c.MaxProducers, c.ProducerIdle = max(0, c.MaxProducers), max(0, c.ProducerIdle)
	return c
}

func orDefault[T int | int64 | time.Duration](value *T, fallback T) {
	if *value <= 0 {
		*value = fallback
	}
}
