package local_test

import (
	"bytes"
	"errors"
	"fmt"
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
	q := open(t, source)
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
	want := contents(t, q)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(filepath.Join(source, local.FileName))
	if err != nil {
		t.Fatal(err)
	}
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
		if !opensRightOrNot(t, spoiled, want) {
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

// contents are the payloads of all unsettled jobs by id.
func contents(t *testing.T, q *local.Queue) map[string]string {
	t.Helper()
	found, err := tryContents(t, q)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func tryContents(t *testing.T, q *local.Queue) (map[string]string, error) {
	found := map[string]string{}
	_, _, err := q.Load(t.Context(), "owner", func(r queue.Row) error {
		jobs, err := q.ReadJobs(t.Context(), []int64{r.StoreSeq})
		if err == nil {
			found[jobs[0].MessageID] = string(jobs[0].Payload)
		}
		return err
	})
	return found, err
}

// opensRightOrNot opens a damaged copy: false for a clear refusal, true for the right contents.
func opensRightOrNot(t *testing.T, image []byte, want map[string]string) bool {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, local.FileName), image, 0o600); err != nil {
		t.Fatal(err)
	}
	q, err := local.Open(t.Context(), local.Options{Dir: dir, FlowUID: "uid-1"})
	if err == nil {
		defer q.Close()
		var found map[string]string
		if found, err = tryContents(t, q); err == nil {
			if len(found) != len(want) {
				t.Errorf("%d jobs, want %d, and no error", len(found), len(want))
			}
			for id, payload := range found {
				if want[id] != payload {
					t.Errorf("the bytes of %s are wrong, and no error", id)
				}
			}
			return true
		}
	}
	if !errors.Is(err, queue.ErrConflict) && !errors.Is(err, queue.ErrUnsupportedFormat) && !errors.Is(err, local.ErrOtherFlow) {
		t.Errorf("error %v, want a clear verdict", err)
	}
	return false
}
