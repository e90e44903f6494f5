package lane_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/workpulling/workpulling/runtime/queue/internal/lane"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errEnded, errBad = errors.New("ended"), errors.New("bad")

type operation = lane.Operation[string]

// line is a lane whose groups are recorded.
type line struct {
	*lane.Lane[string]
	groups [][]string
	apart  bool
}

func newLine() *line {
	l := &line{}
	l.Lane = lane.New(errEnded, lane.Backend[string]{Transact: l.record, Apart: func(error) bool { return l.apart }})
	return l
}

// record notes a group. One with "bad" in it fails.
func (l *line) record(group []*operation) ([]error, error) {
	var deeds []string
	for _, op := range group {
		deeds = append(deeds, op.Deed)
	}
	l.groups = append(l.groups, deeds)
	if slices.Contains(deeds, "bad") {
		return nil, errBad
	}
	return make([]error, len(group)), nil
}

// queue hands operations over while the lane is held, in order, and returns where their ends arrive.
func (l *line) queue(t *testing.T, ops ...*operation) <-chan error {
	t.Helper()
	ends := make(chan error, len(ops))
	for i, op := range ops {
		op.Ctx = t.Context()
		go func() { ends <- l.Do(op) }()
		for l.Waiting() <= i {
			runtime.Gosched() // until it has taken its place
		}
	}
	return ends
}

// What waits goes together, in order, within the bound of a group; what wants to be alone is.
func TestGroups(t *testing.T) {
	const half = 9 << 20
	for name, c := range map[string]struct {
		ops  []*operation
		want [][]string
	}{
		"together":                   {[]*operation{{Deed: "a"}, {Deed: "b"}, {Deed: "c"}}, [][]string{{"a", "b", "c"}}},
		"too many bytes":             {[]*operation{{Deed: "a", Bytes: half}, {Deed: "b"}, {Deed: "c", Bytes: half}}, [][]string{{"a", "b"}, {"c"}}},
		"one above the bound":        {[]*operation{{Deed: "a", Bytes: 2 * half}, {Deed: "b"}}, [][]string{{"a"}, {"b"}}},
		"one that wants to be alone": {[]*operation{{Deed: "a"}, {Deed: "b", Alone: true}, {Deed: "c"}}, [][]string{{"a"}, {"b"}, {"c"}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLine()
			if err := l.Hold(t.Context()); err != nil {
				t.Fatal(err)
			}
			ends := l.queue(t, c.ops...)
			l.Release()
			for range c.ops {
				if err := <-ends; err != nil {
					t.Error(err)
				}
			}
			l.Close()
			if diff := cmp.Diff(c.want, l.groups); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A caller leaves at its context's end, whoever holds the lane, and its operation may still happen.
func TestACallerLeaves(t *testing.T) {
	l := newLine()
	_ = l.Hold(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := l.Do(&operation{Ctx: ctx, Deed: "late"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if err := l.Hold(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if err := l.Do(&operation{Ctx: ctx, Deed: "never"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	l.Release()
	if err := l.Do(&operation{Ctx: t.Context(), Deed: "next"}); err != nil {
		t.Error(err)
	}
	l.Close()
	if diff := cmp.Diff([]string{"late", "next"}, slices.Concat(l.groups...)); diff != "" {
		t.Error(diff)
	}
}

// Close waits for who holds the lane; what waits then ends, and so does what comes later.
func TestClose(t *testing.T) {
	l := newLine()
	_ = l.Hold(t.Context())
	ends := l.queue(t, &operation{Deed: "a"}, &operation{Deed: "b"})
	closed := make(chan bool)
	go func() { closed <- l.Close() }()
	for !l.Closed() {
		runtime.Gosched()
	}
	if err := l.Do(&operation{Ctx: t.Context()}); !errors.Is(err, errEnded) {
		t.Errorf("error %v", err)
	}
	l.Release()
	if !<-closed || l.Close() {
		t.Error("it is not closed once")
	}
	for range 2 {
		if err := <-ends; err != nil && !errors.Is(err, errEnded) {
			t.Errorf("error %v", err)
		}
	}
}

// A failure voids the whole group; where the back-end says so, each operation is tried by itself.
func TestAFailureOfAGroup(t *testing.T) {
	for name, c := range map[string]struct {
		apart  bool
		failed int
		groups [][]string
	}{
		"all fail":       {false, 3, [][]string{{"a", "bad", "c"}}},
		"one fails only": {true, 1, [][]string{{"a", "bad", "c"}, {"a"}, {"bad"}, {"c"}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLine()
			l.apart = c.apart
			_ = l.Hold(t.Context())
			ends := l.queue(t, &operation{Deed: "a"}, &operation{Deed: "bad"}, &operation{Deed: "c"})
			l.Release()
			failed := 0
			for range 3 {
				if errors.Is(<-ends, errBad) {
					failed++
				}
			}
			l.Close()
			if diff := cmp.Diff(c.groups, l.groups); diff != "" || failed != c.failed {
				t.Errorf("%d failed, want %d; groups: %s", failed, c.failed, diff)
			}
		})
	}
}
