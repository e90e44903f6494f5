package queuetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// Every load of the suite checks besides that the secret is there and stays the same.
var identities = []scenario{
	{"different data have different secrets", func(f *fixture) {
		q, err := f.place.Open("flow-b")
		if err != nil {
			f.Fatal(err)
		}
		defer q.Close()
		_, state, _, err := loadAll(f.Context(), q)
		if err != nil {
			f.Fatal(err)
		}
		if state.Secret == (queue.Secret{}) || state.Secret == f.state.Secret {
			f.Errorf("the other flow's secret is missing or the same")
		}
	}},
	{"the workers that were recorded last come back (B-238)", func(f *fixture) {
		if len(f.state.Workers) > 0 {
			f.Errorf("workers of an empty queue: %v", f.state.Workers)
		}
		pool := incarnations(300)
		for _, step := range []struct {
			name    string
			workers []protocol.Incarnation
			want    []protocol.Incarnation
		}{
			{"recorded", pool[:200], pool[:200]},
			{"nil changes nothing", nil, pool[:200]},
			{"replaced", pool[100:], pool[100:]},
			{"each once", append(slices.Clone(pool[:2]), pool[0], pool[1]), pool[:2]},
			{"a pod's next incarnation", []protocol.Incarnation{pool[0], {PodUID: pool[0].PodUID, BootNonce: "next"}},
				[]protocol.Incarnation{pool[0], {PodUID: pool[0].PodUID, BootNonce: "next"}}},
			{"an empty list records that there are none", []protocol.Incarnation{}, nil},
			{"largest", []protocol.Incarnation{largest}, []protocol.Incarnation{largest}},
		} {
			f.apply(queue.Batch{Workers: step.workers})
			f.load()
			f.equal(step.name, sorted(f.state.Workers), sorted(step.want))
			if !f.backend.Volatile {
				f.reopen()
				f.equal(step.name+", after a restart", sorted(f.state.Workers), sorted(step.want))
			}
		}
	}},
	{"workers are recorded with their batch or not at all", func(f *fixture) {
		pool := incarnations(3)
		f.apply(queue.Batch{Workers: pool[:1]})
		for name, b := range map[string]queue.Batch{
			"an illegal confirm": {Workers: pool, Confirms: []queue.JobRef{ref("never", 99)}},
			"an illegal job":     {Workers: pool, Stores: []queue.StoreRequest{{Job: protocol.Job{MessageID: "x"}}}},
			"no pod UID":         {Workers: []protocol.Incarnation{pool[1], {BootNonce: "b"}}},
			"no boot nonce":      {Workers: []protocol.Incarnation{{PodUID: "p"}}},
			"a long pod UID":     {Workers: []protocol.Incarnation{{PodUID: largest.PodUID + "x", BootNonce: "b"}}},
			"a control":          {Workers: []protocol.Incarnation{{PodUID: "p\x00", BootNonce: "b"}}},
		} {
			_, err := f.q.Apply(f.Context(), f.epoch, b)
			if !errors.Is(err, queue.ErrConflict) && !errors.Is(err, protocol.ErrInvalid) {
				f.Errorf("%s: error %v", name, err)
			}
		}
		_, err := f.q.Apply(f.Context(), f.epoch+1, queue.Batch{Workers: pool})
		f.fails("another epoch", err, queue.ErrFenced)
		f.load()
		f.equal("workers", f.state.Workers, pool[:1])
	}},
	{"recorded workers are nobody's memory but the store's (B-055)", func(f *fixture) {
		given := incarnations(3)
		f.apply(queue.Batch{Workers: given})
		given[0].PodUID = "changed"
		f.load()
		f.state.Workers[1].PodUID = "changed"
		f.load()
		f.equal("workers", sorted(f.state.Workers), incarnations(3))
	}},
	{"a shared queue tells who loaded last", func(f *fixture) {
		shared, ok := f.q.(queue.Shared)
		if !ok {
			return // an optional interface
		}
		owner := func(q queue.Shared) queue.Owner {
			f.Helper()
			o, err := q.Owner(f.Context())
			if err != nil {
				f.Fatal(err)
			}
			return o
		}
		f.equal("owner", owner(shared), queue.Owner{Epoch: f.epoch, Address: "owner"})
		_, _, err := f.q.Load(f.Context(), "failing", func(queue.Row) error { return nil })
		if err != nil {
			f.Fatal(err)
		}
		f.epoch++
		f.store("a")
		_, _, err = f.q.Load(f.Context(), "failing", func(queue.Row) error { return errVisit })
		f.fails("the failing load", err, errVisit)
		f.equal("owner after a failed load", owner(shared), queue.Owner{Epoch: f.epoch, Address: "failing"})

		other, err := f.place.Open("flow-b")
		if err != nil {
			f.Fatal(err)
		}
		defer other.Close()
		f.equal("owner of what nobody loaded", owner(other.(queue.Shared)), queue.Owner{})

		standby, err := f.place.Open(flow)
		if err != nil {
			f.Fatalf("opening what is open: %v", err)
		}
		defer standby.Close()
		f.equal("owner as another process sees it", owner(standby.(queue.Shared)), queue.Owner{Epoch: f.epoch, Address: "failing"})
		state, epoch, err := standby.Load(f.Context(), "[fd00::7]:8443", func(queue.Row) error { return nil })
		if err != nil || state.Secret != f.state.Secret || state.Cursor != 1 {
			f.Errorf("the other process loads cursor %d, error %v", state.Cursor, err)
		}
		f.equal("new owner", owner(shared), queue.Owner{Epoch: epoch, Address: "[fd00::7]:8443"})
		_, err = f.q.Apply(f.Context(), f.epoch, queue.Batch{})
		f.fails("the writer before", err, queue.ErrFenced)
	}},
}

var largest = protocol.Incarnation{
	PodUID: strings.Repeat("p", protocol.MaxIDBytes), BootNonce: strings.Repeat("✓", protocol.MaxIDBytes/3),
}

func incarnations(n int) []protocol.Incarnation {
	pool := make([]protocol.Incarnation, n)
	for i := range pool {
		pool[i] = protocol.Incarnation{PodUID: fmt.Sprintf("w-%04d", i), BootNonce: fmt.Sprintf("boot-%d", i)}
	}
	return pool
}

func sorted(workers []protocol.Incarnation) []protocol.Incarnation {
	return slices.SortedFunc(slices.Values(workers), func(a, b protocol.Incarnation) int {
		return cmp.Or(cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(a.BootNonce, b.BootNonce))
	})
}
