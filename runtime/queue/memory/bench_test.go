package memory_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/memory"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// flood drives a queue as a flow at full load does: each batch stores jobs, accepts those of the batch before it and confirms those of
// the batch before that.
type flood struct {
	queue  *memory.Queue
	epoch  queue.Epoch
	now    time.Time
	batch  queue.Batch
	number int
	size   int
}

const benchPayload = 256

func newFlood(b *testing.B, size int) *flood {
	b.Helper()
	f := &flood{now: time.Unix(1_700_000_000, 0), size: size}
	var err error
	f.queue, err = memory.New(memory.Options{DeduplicationWindow: 10 * time.Minute, Clock: func() time.Time { return f.now }})
	if err != nil {
		b.Fatal(err)
	}
	if _, f.epoch, err = f.queue.Load(context.Background(), "bench", func(queue.Row) error { return nil }); err != nil {
		b.Fatal(err)
	}
	payload := make([]byte, benchPayload)
	f.batch.Stores = make([]queue.StoreRequest, size)
	for i := range f.batch.Stores {
		f.batch.Stores[i].Job = protocol.Job{Payload: payload}
	}
	return f
}

// step applies one batch and moves the clock by a window's share of it, so that jobs of the window are remembered at any time.
func (f *flood) step(b *testing.B, window int, settle bool) {
	b.Helper()
	for i := range f.batch.Stores {
		f.number++
		f.batch.Stores[i].Job.MessageID = "job-" + strconv.Itoa(1_000_000_000_000+f.number)
	}
	result, err := f.queue.Apply(context.Background(), f.epoch, f.batch)
	if err != nil {
		b.Fatal(err)
	}
	f.batch.Cursor = result.Cursor
	f.batch.Confirms, f.batch.Accepts = f.batch.Accepts, f.batch.Confirms[:0]
	for i, stored := range result.Stores {
		f.batch.Accepts = append(f.batch.Accepts, queue.JobRef{MessageID: f.batch.Stores[i].Job.MessageID, StoreSeq: stored.StoreSeq})
	}
	if !settle {
		f.batch.Confirms = nil
	}
	f.now = f.now.Add(10 * time.Minute * time.Duration(f.size) / time.Duration(window))
	if _, err := f.queue.Compact(context.Background(), f.epoch, 4*f.size); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkLife is the life of one job: stored, accepted, confirmed, forgotten, while as many settled ids as its name says are remembered.
func BenchmarkLife(b *testing.B) {
	for _, window := range []int{1_000, 1_000_000} {
		for _, size := range []int{8, 64, 512} {
			b.Run(fmt.Sprintf("window-%d/batch-%d", window, size), func(b *testing.B) {
				f := newFlood(b, size)
				for f.number < window+window/2 {
					f.step(b, window, true)
				}
				runtime.GC()
				b.ReportAllocs()
				b.ResetTimer()
				before := transporttest.ProcessorTime(b)
				for range (b.N + size - 1) / size {
					f.step(b, window, true)
				}
				b.ReportMetric(float64(transporttest.ProcessorTime(b)-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// BenchmarkMemory reports what a million ids hold in memory, settled or not.
func BenchmarkMemory(b *testing.B) {
	const ids = 1_000_000
	for name, settle := range map[string]bool{"settled": true, "unsettled": false} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				before := heap()
				f := newFlood(b, 64)
				for f.number < ids {
					f.step(b, 10*ids, settle)
				}
				b.ReportMetric(float64(heap()-before)/float64(f.number), "B/id")
				runtime.KeepAlive(f)
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// BenchmarkLoad takes a long backlog over, whose rows nobody keeps.
func BenchmarkLoad(b *testing.B) {
	f := newFlood(b, 1000)
	for range 1000 {
		f.step(b, 1_000_000, false)
	}
	b.ReportAllocs()
	for b.Loop() {
		rows := 0
		if _, _, err := f.queue.Load(b.Context(), "bench", func(queue.Row) error { rows++; return nil }); err != nil || rows != 1_000_000 {
			b.Fatalf("%d rows, error %v", rows, err)
		}
	}
}
