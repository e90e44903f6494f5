package local_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/local"
)

// A page that the disk lost, tore or filled with something else leads to the right jobs or to a clear error: never to wrong or
// missing ones, and never to the end of the process.
func TestDamagedPages(t *testing.T) {
	const pageBytes, jobs, rounds = 4096, 300, 75
	source := t.TempDir()
	q := hastyQueue(t, source, 1000)
	_, _, epoch := load(t, q)
	for i := range int64(jobs) {
		id := fmt.Sprintf("job-%d", i+1)
		batch := queue.Batch{Cursor: i, Stores: []queue.StoreRequest{request(id, payloadOf(id))}}
		if i > 10 && i%3 == 0 {
			batch.Confirms = []queue.JobRef{{MessageID: fmt.Sprintf("job-%d", i-10), StoreSeq: i - 10}}
		}
		if _, err := q.Apply(t.Context(), epoch, batch); err != nil {
			t.Fatal(err)
		}
	}
	want := contents(t, q, &epoch)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	files := read(t, source)
	image := files[local.FileName]
	used := usedPages(t, filepath.Join(source, local.FileName))
	pages := len(image) / pageBytes
	seed := rand.Uint64()
	t.Logf("seed %d, %d pages, %d used", seed, pages, len(used))
	random := rand.New(rand.NewPCG(seed, 1))
	refused := 0
	for round := range rounds {
		spoiled := bytes.Clone(image)
		at := used[random.IntN(len(used))]
		page := spoiled[at*pageBytes : (at+1)*pageBytes]
		switch round % 5 {
		case 0:
			clear(page)
		case 1:
			clear(page[random.IntN(pageBytes):])
		case 2:
			copy(page, image[used[random.IntN(len(used))]*pageBytes:][:pageBytes])
		case 3:
			page[random.IntN(pageBytes)] ^= 1 << random.IntN(8)
		case 4:
			spoiled = spoiled[:at*pageBytes+random.IntN(pageBytes)]
		}
		files[local.FileName] = spoiled
		if !opensRightOrNot(t, files, want) {
			refused++
		}
		if t.Failed() {
			t.Fatalf("round %d, page %d", round, at)
		}
	}
	t.Logf("%d of %d refused, the others were right", refused, rounds)
	if refused == 0 {
		t.Error("no damage was ever met: this test tests nothing")
	}
}

// A page that speaks of a key beyond the end of the file is met with an error.
func TestAKeyOfImpossibleLength(t *testing.T) {
	const pageBytes, headBytes, branch, leaf = 4096, 16, 1, 2
	lengthAt := map[uint16]int{branch: 4, leaf: 8}
	source := t.TempDir()
	q := open(t, source)
	_, _, epoch := load(t, q)
	for i := range int64(300) {
		id := fmt.Sprintf("job-%d", i+1)
		if _, err := q.Apply(t.Context(), epoch, queue.Batch{Cursor: i, Stores: []queue.StoreRequest{request(id, payloadOf(id))}}); err != nil {
			t.Fatal(err)
		}
	}
	want := contents(t, q, &epoch)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	image := read(t, source)
	tried := map[uint16]int{}
	for _, at := range usedPages(t, filepath.Join(source, local.FileName)) {
		spoiled := bytes.Clone(image[local.FileName])
		page := spoiled[at*pageBytes:]
		kind := binary.NativeEndian.Uint16(page[8:])
		if lengthAt[kind] == 0 || binary.NativeEndian.Uint16(page[10:]) == 0 {
			continue
		}
		if tried[kind]++; kind == leaf && tried[leaf]%8 != 0 {
			continue // some of them will do: each has the whole journal beside it
		}
		binary.NativeEndian.PutUint32(page[headBytes+lengthAt[kind]:], 0x0800_000a)
		found, err := reopened(t, map[string][]byte{local.FileName: spoiled, local.JournalName: image[local.JournalName]})
		if err == nil && !maps.Equal(found, want) {
			t.Errorf("page %d: %d jobs, want %d, and no error", at, len(found), len(want))
		}
		if kind == branch && !errors.Is(err, queue.ErrConflict) {
			t.Errorf("page %d: error %v, want a conflict", at, err)
		}
	}
	if tried[branch] == 0 || tried[leaf] < 8 {
		t.Errorf("spoilt %v: this test tests nothing", tried)
	}
}

// A journal that is damaged anywhere leads to the right jobs or to a clear error, but for one case: a damaged last group looks as one that
// a crash cut off.
func TestDamagedJournal(t *testing.T) {
	const jobs, rounds, blockBytes = 40, 60, 4096
	source := t.TempDir()
	q := hastyQueue(t, source, 1000)
	_, _, epoch := load(t, q)
	var before map[string]string
	for i := range int64(jobs) {
		if i == jobs-1 {
			before = contents(t, q, &epoch)
		}
		id := fmt.Sprintf("job-%d", i+1)
		if _, err := q.Apply(t.Context(), epoch, queue.Batch{Cursor: i, Stores: []queue.StoreRequest{request(id, payloadOf(id))}}); err != nil {
			t.Fatal(err)
		}
	}
	image := read(t, source) // as a crash would leave it: closing writes all to the tree
	want := contents(t, q, &epoch)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	journal := image[local.JournalName]
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	start, end := bytes.IndexFunc(journal, notZero), bytes.LastIndexFunc(journal, notZero)
	last := end / blockBytes * blockBytes // where the last group starts: what spoils it and the one before looks like the crash that cut off both
	right, refused, short := 0, 0, 0
	for round := range rounds {
		spoiled := bytes.Clone(journal)
		at := start + random.IntN(end-start)
		stretch := spoiled[at:end]
		if at < last {
			stretch = spoiled[at:last]
		}
		switch round % 5 {
		case 0:
			spoiled[at] ^= 1 << random.IntN(8)
		case 1:
			clear(stretch[:min(random.IntN(9000), len(stretch))])
		case 2:
			copy(stretch, journal[start+random.IntN(end-start):][:random.IntN(5000)])
		case 3:
			spoiled = spoiled[:at]
		case 4:
			spoiled[end] ^= 1
		}
		found, err := reopened(t, map[string][]byte{local.FileName: image[local.FileName], local.JournalName: spoiled})
		switch {
		case errors.Is(err, queue.ErrConflict):
			refused++
		case err != nil:
			t.Fatalf("round %d: error %v, want a clear verdict", round, err)
		case maps.Equal(found, want):
			right++
		case maps.Equal(found, before):
			short++
		default:
			t.Fatalf("round %d: %d jobs, want %d, and no error", round, len(found), len(want))
		}
	}
	t.Logf("%d right, %d refused, %d without the last group", right, refused, short)
	if refused == 0 || short == 0 {
		t.Error("not all was met: this test tests nothing")
	}
}

func notZero(r rune) bool { return r != 0 }

// read is all that a directory holds.
func read(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, name := range []string{local.FileName, local.JournalName} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = data
	}
	return files
}

// reopened is what a queue of these files holds.
func reopened(t *testing.T, files map[string][]byte) (map[string]string, error) {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	q, err := local.Open(t.Context(), local.Options{Dir: dir, FlowUID: "uid-1"})
	if err != nil {
		return nil, err
	}
	defer q.Close()
	found, _, err := tryContents(t, q)
	return found, err
}

// usedPages are the pages of a queue's file that hold something, but for the two that name the file's root: most of the file is the
// reserve, whose damage nobody meets.
func usedPages(t *testing.T, path string) []int {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var used []int
	err = db.View(func(tx *bolt.Tx) error {
		for at := 2; ; at++ {
			page, err := tx.Page(at)
			if err != nil || page == nil {
				return err
			}
			if page.Type != "free" {
				used = append(used, at)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// contents are the payloads of all unsettled jobs by id. To find them is to load, which makes a new epoch.
func contents(t *testing.T, q *local.Queue, epoch *queue.Epoch) map[string]string {
	t.Helper()
	found, now, err := tryContents(t, q)
	if err != nil {
		t.Fatal(err)
	}
	*epoch = now
	return found
}

func tryContents(t *testing.T, q *local.Queue) (map[string]string, queue.Epoch, error) {
	found := map[string]string{}
	_, epoch, err := q.Load(t.Context(), "owner", func(r queue.Row) error {
		jobs, err := q.ReadJobs(t.Context(), []int64{r.StoreSeq})
		if err == nil {
			found[jobs[0].MessageID] = string(jobs[0].Payload)
		}
		return err
	})
	return found, epoch, err
}

// opensRightOrNot opens a damaged copy: false for a clear refusal, true for the right contents.
func opensRightOrNot(t *testing.T, files map[string][]byte, want map[string]string) bool {
	t.Helper()
	found, err := reopened(t, files)
	if err == nil {
		if !maps.Equal(found, want) {
			t.Errorf("%d jobs, want %d, or other bytes, and no error", len(found), len(want))
		}
		return true
	}
	if !errors.Is(err, queue.ErrConflict) && !errors.Is(err, queue.ErrUnsupportedFormat) && !errors.Is(err, local.ErrOtherFlow) {
		t.Errorf("error %v, want a clear verdict", err)
	}
	return false
}
