package local_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/local"
	"github.com/workpulling/workpulling/runtime/queue/queuetest"
)

// A new file on a volume that is full before the first job is settled has no free page but those of its reserve: everything that
// stores no job passes all the same, whatever the size of the jobs and the order in which they end (B-022).
func TestFullVolumeIsWorkedOff(t *testing.T) {
	seed := queuetest.Seed(t)
	random := rand.New(rand.NewPCG(seed, 2))
	orders := []struct {
		name  string
		order func(n int) []int
	}{
		{"first to last", func(n int) []int { return every(n, 1) }},
		{"every second", func(n int) []int { return every(n, 2) }},
		{"every seventh", func(n int) []int { return every(n, 7) }},
		{"at random", random.Perm},
	}
	for _, size := range []int{1, 300, 1000, 3000, 50_000} {
		for _, test := range orders {
			t.Run(fmt.Sprintf("%s, %d bytes", test.name, size), func(t *testing.T) {
				dir := smallVolume(t, 12)
				v := openVolume(t, filepath.Join(dir, "queue"), random)
				v.storeUntilFull(size)
				release := queuetest.Fill(t, dir)
				v.workOff(test.order(int(v.cursor)))
				v.storeAgain(size)
				release()
			})
		}
	}
}

// every counts to n in steps, as often as it takes to meet each number.
func every(n, step int) (order []int) {
	for first := range step {
		for i := first; i < n; i += step {
			order = append(order, i)
		}
	}
	return order
}

func openVolume(t *testing.T, dir string, random *rand.Rand) *volume {
	t.Helper()
	q := open(t, dir)
	_, _, epoch := load(t, q)
	return &volume{t: t, q: q, epoch: epoch, random: random, jobs: map[int64][]byte{}}
}

// storeUntilFull stores jobs of one size, in batches that get smaller, until not even one passes.
func (v *volume) storeUntilFull(size int) {
	v.t.Helper()
	for batch := 256; batch > 0; {
		if err := v.storeBatch(batch, size); errors.Is(err, syscall.ENOSPC) {
			batch /= 2
		} else if err != nil {
			v.t.Fatal(err)
		}
	}
	if v.cursor < 20 {
		v.t.Fatalf("%d jobs: the volume was full at once", v.cursor)
	}
}

func (v *volume) storeBatch(n, size int) error {
	b := queue.Batch{Cursor: v.cursor}
	for i := range n {
		b.Stores = append(b.Stores, request(v.ref(v.cursor+int64(i)+1).MessageID, bytes.Repeat([]byte{'x'}, size)))
	}
	result, err := v.q.Apply(v.t.Context(), v.epoch, b)
	if err == nil {
		v.cursor = result.Cursor
	}
	return err
}

// ref has an id whose place in the index is anywhere.
func (v *volume) ref(seq int64) queue.JobRef {
	return queue.JobRef{MessageID: fmt.Sprintf("%016x-%d", uint64(seq)*0x9e3779b97f4a7c15, seq), StoreSeq: seq}
}

func (v *volume) apply(what string, b queue.Batch) {
	v.t.Helper()
	if _, err := v.q.Apply(v.t.Context(), v.epoch, b); err != nil {
		v.t.Fatalf("%s on a full volume: %v", what, err)
	}
}

// workOff ends all jobs in an order, several hundred at a time, by way of everything that may happen to them: each is accepted,
// a sixth fails with a long text, a sixth becomes a dead letter, some of those are dropped or driven again.
func (v *volume) workOff(order []int) {
	v.t.Helper()
	reason := strings.Repeat("why ", protocol.MaxReasonBytes/4)
	for chunk := range slices.Chunk(order, 300) {
		var accepts, confirms []queue.JobRef
		var attempts []queue.AttemptRecord
		var letters []queue.DeadLetterRequest
		for n, i := range chunk {
			ref := v.ref(int64(i) + 1)
			accepts = append(accepts, ref)
			switch n % 6 {
			case 0:
				attempts = append(attempts, queue.AttemptRecord{JobRef: ref, Attempts: 1, LastReason: reason})
				confirms = append(confirms, ref)
			case 1:
				letters = append(letters, queue.DeadLetterRequest{JobRef: ref, Reason: reason})
			default:
				confirms = append(confirms, ref)
			}
		}
		v.apply("accepting", queue.Batch{Accepts: accepts})
		v.apply("counting attempts", queue.Batch{Attempts: attempts})
		v.apply("dead-lettering", queue.Batch{DeadLetters: letters})
		v.apply("confirming", queue.Batch{Confirms: confirms})
		for n, letter := range letters[:min(len(letters), 4)] {
			v.judge(letter.JobRef, n%2 == 0)
		}
	}
	v.judgeAll()
	for {
		removed, err := v.q.Compact(v.t.Context(), v.epoch, 1000)
		if err != nil {
			v.t.Fatalf("compacting on a full volume: %v", err)
		}
		if removed == 0 {
			break
		}
	}
}

// judge drops a dead letter, or drives it again and confirms it.
func (v *volume) judge(ref queue.JobRef, drop bool) {
	v.t.Helper()
	if drop {
		if err := v.q.Drop(v.t.Context(), v.epoch, ref, "ann"); err != nil {
			v.t.Fatalf("dropping on a full volume: %v", err)
		}
		return
	}
	if _, err := v.q.Redrive(v.t.Context(), v.epoch, ref, "ann"); err != nil {
		v.t.Fatalf("redriving on a full volume: %v", err)
	}
	v.apply("confirming", queue.Batch{Confirms: []queue.JobRef{ref}})
}

// judgeAll confirms the dead letters that are left.
func (v *volume) judgeAll() {
	v.t.Helper()
	for {
		letters, err := v.q.ListDeadLetters(v.t.Context(), 0, 500)
		if err != nil {
			v.t.Fatal(err)
		}
		if len(letters) == 0 {
			return
		}
		var refs []queue.JobRef
		for _, letter := range letters {
			refs = append(refs, letter.JobRef)
		}
		v.apply("confirming dead letters", queue.Batch{Confirms: refs})
	}
}

// storeAgain fills the space inside the file that the jobs have left.
func (v *volume) storeAgain(size int) {
	v.t.Helper()
	before := v.cursor
	for batch := 64; batch > 0; {
		if err := v.storeBatch(batch, size); errors.Is(err, syscall.ENOSPC) {
			batch /= 2
		} else if err != nil {
			v.t.Fatal(err)
		}
	}
	if n := v.cursor - before; n < before/3 {
		v.t.Errorf("%d jobs fit into the space of %d", n, before)
	} else {
		v.t.Logf("%d jobs, then %d in their space", before, n)
	}
}

// A queue opens on a volume that is full already, and is worked off there.
func TestOpenOnAFullVolume(t *testing.T) {
	random := rand.New(rand.NewPCG(queuetest.Seed(t), 3))
	dir := smallVolume(t, 24)
	v := openVolume(t, filepath.Join(dir, "queue"), random)
	v.storeUntilFull(1000)
	release := queuetest.Fill(t, dir)
	defer release()
	for range 3 { // whatever a start needs itself, the next one finds it again; what was set apart in vain, a few more jobs may have
		if err := v.q.Close(); err != nil {
			t.Fatal(err)
		}
		v.q = open(t, filepath.Join(dir, "queue"))
		_, _, v.epoch = load(t, v.q)
		before := v.cursor
		v.storeUntilFull(1000)
		if more := v.cursor - before; more > before/2 {
			t.Errorf("%d jobs fit on a volume that was full with %d", more, before)
		}
	}
	v.workOff(random.Perm(int(v.cursor)))
	v.storeAgain(1000)
}

// A queue that cannot be made on a full volume is made as soon as there is space.
func TestNewQueueOnAFullVolume(t *testing.T) {
	dir := smallVolume(t, 8)
	release := queuetest.Fill(t, dir)
	options := local.Options{Dir: filepath.Join(dir, "queue"), FlowUID: "uid-1"}
	if q, err := local.Open(t.Context(), options); err == nil {
		_ = q.Close()
		t.Fatal("a queue was made without space")
	} else if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, queue.ErrConflict) {
		t.Fatalf("error %v, want that of the volume", err)
	}
	release()
	q := open(t, options.Dir)
	_, _, epoch := load(t, q)
	store(t, q, epoch, 0, "a")
}

// A repeat of a store adds nothing, so it is answered on a full volume too.
func TestFullVolumeKnowsWhatItHolds(t *testing.T) {
	dir := smallVolume(t, 24)
	v := openVolume(t, filepath.Join(dir, "queue"), rand.New(rand.NewPCG(queuetest.Seed(t), 4)))
	v.storeUntilFull(1000)
	defer queuetest.Fill(t, dir)()
	held := queue.Batch{Cursor: v.cursor, Stores: []queue.StoreRequest{request(v.ref(1).MessageID, bytes.Repeat([]byte{'x'}, 1000))}}
	result, err := v.q.Apply(t.Context(), v.epoch, held)
	if err != nil || result.Stores[0].StoreSeq != 1 {
		t.Errorf("repeating a store: %+v, error %v", result, err)
	}
}

// Only a store that finds no room is told that the queue is full, and whoever asks for room hears the same.
func TestFullVolumeIsNamed(t *testing.T) {
	dir := smallVolume(t, 24)
	v := openVolume(t, filepath.Join(dir, "queue"), rand.New(rand.NewPCG(queuetest.Seed(t), 6)))
	if err := v.q.HasRoom(t.Context(), v.epoch); err != nil {
		t.Errorf("an empty queue has no room: %v", err)
	}
	others := filepath.Join(dir, "others")
	if err := os.WriteFile(others, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	v.storeUntilFull(1000)
	if err := v.storeBatch(1, 1000); !errors.Is(err, queue.ErrFull) {
		t.Errorf("storing on a full volume: %v", err)
	}
	if err := v.q.HasRoom(t.Context(), v.epoch); !errors.Is(err, queue.ErrFull) {
		t.Errorf("a full volume has room: %v", err)
	}
	if err := os.Remove(others); err != nil {
		t.Fatal(err)
	}
	if err := v.q.HasRoom(t.Context(), v.epoch); err != nil {
		t.Errorf("with space again: %v", err)
	}
	if err := v.storeBatch(1, 1000); err != nil {
		t.Errorf("storing with space again: %v", err)
	}
}

// A file that has no reserve, or a hole in its place, gets one when it is opened.
func TestReserveOfAnOlderFile(t *testing.T) {
	dir := smallVolume(t, 24)
	path := filepath.Join(dir, "queue", local.FileName)
	v := openVolume(t, filepath.Dir(path), rand.New(rand.NewPCG(queuetest.Seed(t), 5)))
	for range 4 {
		if err := v.storeBatch(256, 1000); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.q.Close(); err != nil {
		t.Fatal(err)
	}
	resize(t, path, used(t, path)) // nothing but what is in use,
	resize(t, path, 16<<20)        // and a hole behind
	v.q = open(t, filepath.Dir(path))
	_, _, v.epoch = load(t, v.q)
	defer queuetest.Fill(t, dir)()
	v.workOff(v.random.Perm(int(v.cursor)))
	if info, err := os.Stat(path); err != nil || info.Size() != 16<<20 {
		t.Errorf("%v, error %v: the reserve is not where the hole was", info, err)
	}
}

// A volume that stays full for long, and whose file falls to pieces as jobs of all sizes come and go, takes confirms all the time.
func TestFullVolumeInPieces(t *testing.T) {
	random := rand.New(rand.NewPCG(queuetest.Seed(t), 6))
	dir := smallVolume(t, 12)
	v := openVolume(t, filepath.Join(dir, "queue"), random)
	v.storeUntilFull(1 + random.IntN(6000))
	defer queuetest.Fill(t, dir)()
	var live []int64
	for seq := range v.cursor {
		live = append(live, seq+1)
	}
	for range 10 {
		random.Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
		going := live[:len(live)*(1+random.IntN(3))/4]
		for chunk := range slices.Chunk(going, 1+random.IntN(500)) {
			var refs []queue.JobRef
			for _, seq := range chunk {
				refs = append(refs, v.ref(seq))
			}
			v.apply("confirming", queue.Batch{Accepts: refs, Confirms: refs})
		}
		live = slices.Clone(live[len(going):])
		for size := range 4 {
			before := v.cursor
			size = 1 + random.IntN(1<<(9+size))
			for batch := 64; batch > 0; {
				err := v.storeBatch(batch, size)
				if err != nil && !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				}
				if batch /= 2; err == nil && v.cursor-before < 1000 {
					batch = 64
				}
			}
			for seq := before; seq < v.cursor; seq++ {
				live = append(live, seq+1)
			}
		}
		if removed, err := v.q.Compact(t.Context(), v.epoch, random.IntN(1000)); err != nil {
			t.Fatalf("compacting %d on a full volume: %v", removed, err)
		}
	}
	t.Logf("%d jobs, %d left", v.cursor, len(live))
}
