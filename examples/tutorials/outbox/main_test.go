package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/workpulling/workpulling"
	"github.com/workpulling/workpulling/examples/tutorials/bed"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

func TestMain(m *testing.M) { bed.Main(m, main) }

// shipping is the worker's app: it counts shipments by MessageID.
type shipping struct {
	mu      sync.Mutex
	shipped map[string]int
}

func newShipping(t *testing.T, flow *bed.Flow) *shipping {
	t.Helper()
	s := &shipping{shipped: map[string]int{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	flow.Work("shipping", bed.PortOf(t, server.Listener.Addr().String()))
	return s
}

func (s *shipping) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shipped[r.Header.Get("Ce-Workpullingmessageid")]++
	w.WriteHeader(http.StatusNoContent)
}

// requireOnce fails the test unless exactly these were shipped, each once.
func (s *shipping) requireOnce(t *testing.T, ids []string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if s.shipped[id] != 1 {
			t.Errorf("%s was shipped %d times", id, s.shipped[id])
		}
	}
	if len(s.shipped) != len(ids) {
		t.Errorf("%d shipped, %d ordered", len(s.shipped), len(ids))
	}
}

func orders(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("order-%d", i))
	}
	return ids
}

// Killed again and again, the app loses no order and ships none twice.
func TestKilledProducerLosesNothingAndRepeatsNothing(t *testing.T) {
	const n = 150
	flow := bed.Start(t)
	shipping := newShipping(t, flow)
	arguments := append(flow.PeerFlags("user:shop"), "-store", filepath.Join(t.TempDir(), "orders.db"), "-orders", strconv.Itoa(n))
	for _, mark := range []int{10, 50, 90} {
		app := bed.Run(t, arguments...)
		transporttest.Eventually(t, "some jobs are stored", func() bool { return flow.Stored() >= mark })
		app.Kill()
	}
	if !bed.Run(t, arguments...).Wait() {
		t.Fatal("the last run failed")
	}
	flow.Await("confirmed", orders(n))
	shipping.requireOnce(t, orders(n))
	if stored := flow.Stored(); stored != n {
		t.Errorf("%d jobs stored for %d orders", stored, n)
	}
}

var errCrash = errors.New("crash")

// crashing is a store whose app dies at a mark, before or after it is written.
type crashing struct {
	outbox
	at    string
	after bool
}

func (c crashing) mark(id string) error {
	if id == c.at && !c.after {
		return errCrash
	}
	if err := c.outbox.mark(id); err != nil {
		return err
	}
	if id == c.at {
		return errCrash
	}
	return nil
}

// The two crashes that the order of mark and acknowledgement is about.
func TestCrashAroundTheMark(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			flow := bed.Start(t)
			shipping := newShipping(t, flow)
			db, err := openStore(filepath.Join(t.TempDir(), "orders.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer db.db.Close()
			for _, id := range orders(3) {
				if err := db.take(id); err != nil {
					t.Fatal(err)
				}
			}
			if err := life(t, flow, crashing{outbox: db, at: "order-1", after: after}); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			rest, err := db.unmarked()
			if err != nil {
				t.Fatal(err)
			}
			if want := map[bool]int{false: 2, true: 1}[after]; len(rest) != want {
				t.Errorf("left in the outbox: %v, want %d", rest, want)
			}
			if err := life(t, flow, db); err != nil {
				t.Fatal(err)
			}
			flow.Await("confirmed", orders(3))
			shipping.requireOnce(t, orders(3))
		})
	}
}

// life is one life of the app, with a connection of its own.
func life(t *testing.T, flow *bed.Flow, db outbox) error {
	t.Helper()
	client, err := workpulling.Dial(workpulling.Flow{Name: bed.Name, Address: flow.Streams()},
		workpulling.ClientOptions{Identity: flow.Identity("user:shop"), ManualAcknowledge: true, StopGrace: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = client.Run(ctx) })
	defer running.Wait()
	defer end()
	return publish(ctx, client, db)
}
