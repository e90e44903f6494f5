package main

import (
	"context"
	"crypto/sha256"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/local"
	"github.com/workpulling/workpulling/runtime/queue/memory"
)

// ours drives any WorkQueue.
type ours struct {
	queue  queue.WorkQueue
	epoch  queue.Epoch
	cursor int64
}

// volatile marks the one that cannot be reopened.
type volatile struct{ ours }

func openLocal(dir string) (contestant, error) {
	q, err := local.Open(context.Background(), local.Options{Dir: dir, FlowUID: "bench"})
	return &ours{queue: q}, err
}

func openMemory(string) (contestant, error) {
	q, err := memory.New(memory.Options{})
	return &volatile{ours{queue: q}}, err
}

func (o *ours) store(jobs, settle []job) error {
	refs := refsOf(settle)
	batch := queue.Batch{Cursor: o.cursor, Stores: make([]queue.StoreRequest, len(jobs)), Accepts: refs, Confirms: refs}
	for i, j := range jobs {
		batch.Stores[i] = queue.StoreRequest{Digest: sha256.Sum256(j.payload), Job: protocol.Job{
			MessageID: j.id, Payload: j.payload, Headers: map[string]string{protocol.HeaderContentType: "application/octet-stream"},
		}}
	}
	result, err := o.queue.Apply(context.Background(), o.epoch, batch)
	o.cursor = max(o.cursor, result.Cursor)
	return err
}

func (o *ours) settle(jobs []job) error {
	refs := refsOf(jobs)
	_, err := o.queue.Apply(context.Background(), o.epoch, queue.Batch{Accepts: refs, Confirms: refs})
	return err
}

func refsOf(jobs []job) []queue.JobRef {
	refs := make([]queue.JobRef, len(jobs))
	for i, j := range jobs {
		refs[i] = queue.JobRef{MessageID: j.id, StoreSeq: j.seq}
	}
	return refs
}

func (o *ours) load() (n int, err error) {
	state, epoch, err := o.queue.Load(context.Background(), "bench", func(queue.Row) error { n++; return nil })
	o.cursor, o.epoch = state.Cursor, epoch
	return n, err
}

func (o *ours) forget() error {
	for {
		n, err := o.queue.Compact(context.Background(), o.epoch, 4096)
		if err != nil || n == 0 {
			return err
		}
	}
}

func (o *ours) close() error { return o.queue.Close() }
