package main

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

const payloadBytes = 1024

// contestant is a queue as the benchmark drives it: jobs get consecutive sequences from 1 in the order of store.
type contestant interface {
	// store commits new jobs and, in the same commit, settles older ones.
	store(jobs []job, settle []job) error
	// settle commits accept and confirm of jobs; safe for concurrent callers.
	settle(jobs []job) error
	// load visits all unsettled jobs and returns their number.
	load() (int, error)
	// forget removes all tombstones.
	forget() error
	close() error
}

type job struct {
	seq     int64
	id      string
	payload []byte
}

type figure struct {
	name, unit string
	value      float64
}

// feed generates jobs and remembers which are unsettled.
type feed struct {
	random  *rand.Rand
	chacha  *rand.ChaCha8
	last    int64
	pending []job
}

func newFeed() *feed {
	return &feed{random: rand.New(rand.NewPCG(1, 2)), chacha: rand.NewChaCha8([32]byte{1})}
}

func (f *feed) fresh(n int) []job {
	jobs := make([]job, n)
	for i := range jobs {
		f.last++
		payload := make([]byte, payloadBytes)
		_, _ = f.chacha.Read(payload) // never fails
		jobs[i] = job{seq: f.last, payload: payload, id: fmt.Sprintf("%016x-%016x", f.random.Uint64(), f.random.Uint64())}
	}
	for _, j := range jobs {
		f.pending = append(f.pending, job{seq: j.seq, id: j.id})
	}
	return jobs
}

func (f *feed) oldest(n int) []job {
	jobs := f.pending[:min(n, len(f.pending))]
	f.pending = f.pending[len(jobs):]
	return jobs
}

// bench runs the phases and collects the figures.
type bench struct {
	queue   contestant
	place   string
	feed    *feed
	figures []figure
}

func measure(open func() (contestant, error), place string, rows int) (_ []figure, err error) {
	b := &bench{place: place, feed: newFeed()}
	if b.queue, err = open(); err != nil {
		return nil, err
	}
	defer func() { _ = b.queue.close() }()
	if _, err := b.queue.load(); err != nil {
		return nil, err
	}
	steps := []func() error{
		func() error { return b.stores("empty: store", false, 1, 16, 256, 1024) },
		func() error { return b.stores("empty: store and settle", true, 1, 16, 256) },
		func() error { return b.settlers("empty: 64 callers settle one each", 64, 40) },
		func() error { return b.fill(rows) },
		func() error { return b.reopen(open) },
		func() error { return b.stores("large: store and settle", true, 1, 16, 256) },
		b.drain,
		b.compact,
		func() error { return b.stores("after churn: store", false, 16) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return b.figures, nil
}

func (b *bench) add(name, unit string, value float64) {
	b.figures = append(b.figures, figure{name, unit, value})
}

// stores commits batches one after the other for a fixed time each.
func (b *bench) stores(name string, settle bool, sizes ...int) error {
	for _, size := range sizes {
		const span = 2 * time.Second
		jobs, started := 0, time.Now()
		for time.Since(started) < span {
			fresh, old := b.feed.fresh(size), []job(nil)
			if settle {
				old = b.feed.oldest(size)
			}
			if err := b.queue.store(fresh, old); err != nil {
				return err
			}
			jobs += size
		}
		b.add(fmt.Sprintf("%s, batch %d", name, size), "jobs/s", float64(jobs)/time.Since(started).Seconds())
	}
	return nil
}

// settlers are concurrent callers with one job a commit: what group commit is for.
func (b *bench) settlers(name string, callers, each int) error {
	if err := b.queue.store(b.feed.fresh(callers*each), nil); err != nil {
		return err
	}
	errs := make([]error, callers)
	var wg sync.WaitGroup
	started := time.Now()
	for i := range callers {
		jobs := b.feed.oldest(each)
		wg.Go(func() {
			for j := range jobs {
				if errs[i] = b.queue.settle(jobs[j : j+1]); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	b.add(name, "jobs/s", float64(callers*each)/time.Since(started).Seconds())
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) fill(rows int) error {
	started := time.Now()
	for left := rows; left > 0; left -= 1024 {
		if err := b.queue.store(b.feed.fresh(min(1024, left)), nil); err != nil {
			return err
		}
	}
	b.add("fill, batch 1024", "jobs/s", float64(rows)/time.Since(started).Seconds())
	b.add("large: disk", "MiB", b.disk())
	return nil
}

func (b *bench) reopen(open func() (contestant, error)) (err error) {
	if _, volatile := b.queue.(*volatile); !volatile {
		if err := b.queue.close(); err != nil {
			return err
		}
		started := time.Now()
		if b.queue, err = open(); err != nil {
			return err
		}
		b.add("large: open", "ms", time.Since(started).Seconds()*1e3)
	} else {
		b.add("large: open", "ms", 0)
	}
	started := time.Now()
	n, err := b.queue.load()
	if err != nil || n != len(b.feed.pending) {
		return fmt.Errorf("loaded %d of %d: %w", n, len(b.feed.pending), err)
	}
	b.add("large: load", "ms", time.Since(started).Seconds()*1e3)
	runtime.GC()
	b.add("large: anonymous memory after load", "MiB", status("RssAnon"))
	return nil
}

func (b *bench) drain() error {
	started, n := time.Now(), len(b.feed.pending)
	for len(b.feed.pending) > 0 {
		if err := b.queue.settle(b.feed.oldest(1024)); err != nil {
			return err
		}
	}
	b.add("drain, batch 1024", "jobs/s", float64(n)/time.Since(started).Seconds())
	return nil
}

func (b *bench) compact() error {
	started := time.Now()
	if err := b.queue.forget(); err != nil {
		return err
	}
	b.add("forget tombstones", "ids/s", float64(b.feed.last)/time.Since(started).Seconds())
	b.add("after churn: disk", "MiB", b.disk())
	return nil
}

func (b *bench) disk() float64 {
	total := int64(0)
	_ = filepath.WalkDir(b.place, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // a file of the engine may vanish while we look
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return float64(total) / (1 << 20)
}

// status reads a size from the kernel's account of this process, in MiB.
func status(key string) float64 {
	text, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			kib, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib / 1024
		}
	}
	return 0
}

func seqKey(seq int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(seq)) }
