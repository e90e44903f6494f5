package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync"
	"time"

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
	// Slices are the latencies of each Stage.Slice.
	Slices [][]byte `json:"slices,omitempty"`
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
	if len(a.Process.Workers) > 0 {
		c.slices = slicesOf(a.Stage.Slices)
	}
	err = c.run()
	last := word{Latency: encode(c.latency), Calls: encode(c.calls)}
	for _, h := range c.slices {
		last.Slices = append(last.Slices, encode(h))
	}
	if err != nil {
		last.Error = err.Error()
	}
	return true, c.out.Encode(last)
}

// slicesOf makes all histograms at once and touches them, so that none of them counts as memory that grows.
func slicesOf(n int) []*hdrhistogram.Histogram {
	all := make([]*hdrhistogram.Histogram, n)
	for i := range all {
		all[i] = NewHistogram()
		all[i].Reset()
	}
	return all
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
	slices         []*hdrhistogram.Histogram
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
	late := func(context.Context) error { return nil }
	if c.Stage.Fill {
		late = c.workLate
	} else if err := c.work(ctx); err != nil {
		return nil, err
	}
	if !c.Process.Produces {
		return late, nil
	}
	to, err := c.system.Produce(ctx, &c.Stage)
	if err != nil {
		return nil, fmt.Errorf("starting the producer: %w", err)
	}
	c.stops = append(c.stops, to.Close)
	d := &driver{stage: &c.Stage, ledger: c.ledger, to: to, calls: c.calls}
	return func(ctx context.Context) error { return together(ctx, d.drive, late, c.heapProfile) }, nil
}

func together(ctx context.Context, parts ...func(context.Context) error) error {
	errs := make(chan error, len(parts))
	for _, part := range parts {
		go func() { errs <- part(ctx) }()
	}
	var all error
	for range parts {
		all = errors.Join(all, <-errs)
	}
	return all
}

// full waits until the backlog is; false means that the trial ends before.
func (c *child) full(ctx context.Context) bool {
	for c.ledger.Phase() < Running {
		if pause(ctx, time.Millisecond) != nil {
			return false
		}
	}
	return true
}

// workLate is work once the backlog is full.
func (c *child) workLate(ctx context.Context) error {
	if !c.full(ctx) {
		return nil
	}
	return c.work(ctx)
}

// work starts the workers of this process.
func (c *child) work(ctx context.Context) error {
	for _, worker := range c.Process.Workers {
		stop, err := c.system.Consume(ctx, &c.Stage, worker, c.handler(worker))
		if err != nil {
			return fmt.Errorf("starting worker %d: %w", worker, err)
		}
		c.stops = append(c.stops, stop)
	}
	return nil
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
		if sendAt != 0 {
			if since, ok := c.ledger.Measures(sendAt); ok {
				c.time(since, Monotonic()-sendAt)
			}
		}
		c.ledger.Handle(worker, number, ok)
	}
}

// time takes the latency of a job that was to be sent so long after the start of the measuring.
func (c *child) time(since time.Duration, late int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	record(c.latency, late)
	if len(c.slices) == 0 {
		return
	}
	if slice := int(since / c.Stage.Slice); slice < len(c.slices) {
		record(c.slices[slice], late)
	}
}

func (c *child) profileName(kind string) string {
	return fmt.Sprintf("%s/%s-%s-%d.%s", c.Stage.Profiles, c.Stage.System, c.Process.Name, os.Getpid(), kind)
}

// heapProfile writes what is in memory while the backlog is full, where profiles are asked for.
func (c *child) heapProfile(ctx context.Context) error {
	if c.Stage.Profiles == "" || !c.Stage.Fill || !c.full(ctx) {
		return nil
	}
	file, err := os.Create(c.profileName("heap"))
	if err != nil {
		return err
	}
	runtime.GC()
	return errors.Join(pprof.WriteHeapProfile(file), file.Close())
}

// profile writes a CPU profile until stop is called, where one is asked for.
func (c *child) profile() (stop func(), err error) {
	if c.Stage.Profiles == "" {
		return func() {}, nil
	}
	file, err := os.Create(c.profileName("pprof"))
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
