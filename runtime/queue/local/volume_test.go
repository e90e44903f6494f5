package local_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/local"
	"github.com/workpulling/workpulling/runtime/queue/queuetest"
)

// smallVolume mounts a volume of a few megabytes, which only root may.
func smallVolume(t *testing.T, megabytes int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", megabytes)); err != nil {
		if os.Getenv("CI") != "" && os.Getuid() == 0 {
			t.Fatalf("mounting a small volume: %v", err)
		}
		t.Skipf("skipped, because it needs root to mount a small volume: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmounting: %v", err)
		}
	})
	return dir
}

// A volume that fills up in the middle of batches costs errors that may be repeated and nothing else: what was acknowledged stays,
// nothing is half there, confirms pass, and stores do again as soon as there is space (B-022).
func TestVolumeFillsUp(t *testing.T) {
	dir := smallVolume(t, 24)
	random := rand.New(rand.NewPCG(queuetest.Seed(t), 1))
	q := open(t, filepath.Join(dir, "queue"))
	_, _, epoch := load(t, q)
	v := &volume{t: t, q: q, epoch: epoch, random: random, jobs: map[int64][]byte{}}
	failures := 0
	for round := range 6 {
		var release func()
		for range 200 {
			if release == nil && random.IntN(40) == 0 {
				release = queuetest.Fill(t, dir)
			}
			if !v.store() {
				failures++
				break
			}
		}
		v.verify()
		v.settle(len(v.jobs) / 2) // frees space inside the file, also while the volume is full
		if release != nil {
			release()
		}
		v.verify()
		if round%2 == 1 {
			if err := v.q.Close(); err != nil {
				t.Fatal(err)
			}
			v.q = open(t, filepath.Join(dir, "queue"))
			_, _, v.epoch = load(t, v.q)
			v.verify()
		}
	}
	if !v.store() {
		t.Error("no store passes although there is space")
	}
	v.verify()
	t.Logf("%d times full, %d jobs stored, %d left", failures, v.cursor, len(v.jobs))
	if failures < 3 {
		t.Error("the volume hardly ever filled up: this test tests nothing")
	}
}

// volume is a queue with what it acknowledged.
type volume struct {
	t      *testing.T
	q      *local.Queue
	epoch  queue.Epoch
	random *rand.Rand
	cursor int64
	jobs   map[int64][]byte // unsettled, by sequence
}

// store stores a batch of random size; false means that the volume is full.
func (v *volume) store() bool {
	v.t.Helper()
	b := queue.Batch{Cursor: v.cursor}
	for range 1 + v.random.IntN(8) {
		payload := bytes.Repeat([]byte{byte(v.random.IntN(255) + 1)}, 1+v.random.IntN(200<<10))
		b.Stores = append(b.Stores, request(fmt.Sprintf("job-%d", v.cursor+int64(len(b.Stores))+1), payload))
	}
	result, err := v.q.Apply(v.t.Context(), v.epoch, b)
	if err != nil {
		if errors.Is(err, queue.ErrConflict) || errors.Is(err, queue.ErrFenced) || errors.Is(err, protocol.ErrInvalid) {
			v.t.Fatalf("a full volume is not retriable: %v", err)
		}
		return false
	}
	for i, s := range result.Stores {
		v.jobs[s.StoreSeq] = b.Stores[i].Job.Payload
	}
	v.cursor = result.Cursor
	return true
}

// settle confirms so many jobs, one by one and in random order.
func (v *volume) settle(n int) {
	v.t.Helper()
	sequences := slices.Sorted(maps.Keys(v.jobs))
	for _, i := range v.random.Perm(len(sequences))[:n] {
		seq := sequences[i]
		refs := []queue.JobRef{{MessageID: fmt.Sprintf("job-%d", seq), StoreSeq: seq}}
		if _, err := v.q.Apply(v.t.Context(), v.epoch, queue.Batch{Accepts: refs, Confirms: refs}); err != nil {
			v.t.Fatalf("confirming on a full volume: %v", err)
		}
		delete(v.jobs, seq)
	}
}

// verify loads and compares all jobs, byte for byte.
func (v *volume) verify() {
	v.t.Helper()
	now, err := v.q.Apply(v.t.Context(), v.epoch, queue.Batch{})
	if err != nil || now.Cursor != v.cursor {
		v.t.Fatalf("cursor %d, acknowledged %d, error %v", now.Cursor, v.cursor, err)
	}
	for seq := int64(1); seq <= v.cursor; seq++ {
		jobs, err := v.q.ReadJobs(v.t.Context(), []int64{seq})
		if err != nil || !bytes.Equal(jobs[0].Payload, v.jobs[seq]) {
			v.t.Fatalf("job %d has %d bytes, want %d, error %v", seq, len(jobs[0].Payload), len(v.jobs[seq]), err)
		}
	}
}

// Data of the first build become those of this one also on a volume that is nearly full: the journal is then as small as it has to be.
func TestDataOfTheFirstBuildOnAFullVolume(t *testing.T) {
	volume := smallVolume(t, 64) // of which a journal has 2 MiB where there is room
	dir := filepath.Join(volume, "queue")
	q := open(t, dir)
	_, _, epoch := load(t, q)
	store(t, q, epoch, 0, "a", "b")
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, dir, local.MakeOld)
	journal := filepath.Join(dir, local.JournalName)
	if err := os.Truncate(journal, 600<<10); err != nil {
		t.Fatal(err)
	}
	queuetest.Fill(t, volume)
	if err := os.Remove(journal); err != nil {
		t.Fatal(err)
	}
	q = open(t, dir)
	rows, _, epoch := load(t, q)
	if len(rows) != 2 {
		t.Fatalf("rows %v", rows)
	}
	refs := []queue.JobRef{rows[0].JobRef}
	if _, err := q.Apply(t.Context(), epoch, queue.Batch{Accepts: refs, Confirms: refs}); err != nil {
		t.Errorf("confirming on a full volume: %v", err)
	}
}
