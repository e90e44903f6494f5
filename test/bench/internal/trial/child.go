package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"slices"
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// assignment is what a parent tells a child, in the environment.
type assignment struct {
	Stage   Stage
	Process Process
}

const assignmentVariable = "WORKPULLING_BENCH_CHILD"

// word is what a child tells its parent, a line each: that it is ready, and how it ended.
type word struct {
	Ready bool   `json:"ready,omitempty"`
	Error string `json:"error,omitempty"`
	// Latency and Calls are histograms in hdrhistogram's own encoding.
	Latency []byte `json:"latency,omitempty"`
	Calls   []byte `json:"calls,omitempty"`
}

// RunChild plays the part that the environment assigns, and says whether there is one. It ends when standard input does. Every main calls
// it first.
func RunChild(systems []System) (played bool, err error) {
	text, ok := os.LookupEnv(assignmentVariable)
	if !ok {
		return false, nil
	}
	var a assignment
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return true, fmt.Errorf("reading the assignment: %w", err)
	}
	at := slices.IndexFunc(systems, func(s System) bool { return s.Name() == a.Stage.System })
	if at < 0 {
		return true, fmt.Errorf("there is no system %s", a.Stage.System)
	}
	c := &child{assignment: a, system: systems[at], out: json.NewEncoder(os.Stdout), latency: NewHistogram(), calls: NewHistogram()}
	err = c.run()
	last := word{Latency: encode(c.latency), Calls: encode(c.calls)}
	if err != nil {
		last.Error = err.Error()
	}
	return true, c.out.Encode(last)
}

func encode(h *hdrhistogram.Histogram) []byte {
	if h.TotalCount() == 0 {
		return nil
	}
	raw, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		panic(err) // encoding to memory
	}
	return raw
}

// child is one process of a trial.
type child struct {
	assignment
	system System
	out    *json.Encoder
	ledger *Ledger
	stops  []func() error

	mu             sync.Mutex
	latency, calls *hdrhistogram.Histogram
}

func (c *child) run() (err error) {
	if c.ledger, err = OpenLedger(c.Stage.Ledger); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer func() { err = errors.Join(err, c.stop()) }()
	produce, err := c.start(ctx)
	if err != nil {
		return err
	}
	stopProfile, err := c.profile()
	if err != nil {
		return err
	}
	defer stopProfile()
	if err := c.out.Encode(word{Ready: true}); err != nil {
		return err
	}
	driven := make(chan error, 1)
	go func() { driven <- produce(ctx) }()
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent closes it, or dies
	cancel()
	return <-driven
}

// start starts everything that this process hosts; produce is what makes the load, nothing in most of them.
func (c *child) start(ctx context.Context) (produce func(context.Context) error, err error) {
	for _, role := range c.Process.Serve {
		stop, err := c.system.Serve(ctx, &c.Stage, role)
		if err != nil {
			return nil, fmt.Errorf("serving as %s: %w", role, err)
		}
		c.stops = append(c.stops, stop)
	}
	for _, worker := range c.Process.Workers {
		stop, err := c.system.Consume(ctx, &c.Stage, worker, c.handler(worker))
		if err != nil {
			return nil, fmt.Errorf("starting worker %d: %w", worker, err)
		}
		c.stops = append(c.stops, stop)
	}
	if !c.Process.Produces {
		return func(context.Context) error { return nil }, nil
	}
	to, err := c.system.Produce(ctx, &c.Stage)
	if err != nil {
		return nil, fmt.Errorf("starting the producer: %w", err)
	}
	c.stops = append(c.stops, to.Close)
	d := &driver{stage: &c.Stage, ledger: c.ledger, to: to, calls: c.calls}
	return d.drive, nil
}

// stop stops what was started, last first.
func (c *child) stop() error {
	var errs []error
	for _, stop := range slices.Backward(c.stops) {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// handler is what a worker of this process gives its jobs to.
func (c *child) handler(worker int) func([]byte) {
	return func(payload []byte) {
		number, sendAt, ok := ReadJob(payload, c.Stage.PayloadBytes)
		if sendAt != 0 && c.ledger.Measures(sendAt) {
			late := Monotonic() - sendAt
			c.mu.Lock()
			record(c.latency, late)
			c.mu.Unlock()
		}
		c.ledger.Handle(worker, number, ok)
	}
}

// profile writes a CPU profile until stop is called, where one is asked for.
func (c *child) profile() (stop func(), err error) {
	if c.Stage.Profiles == "" {
		return func() {}, nil
	}
	file, err := os.Create(fmt.Sprintf("%s/%s-%s-%d.pprof", c.Stage.Profiles, c.Stage.System, c.Process.Name, os.Getpid()))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}, nil
}
