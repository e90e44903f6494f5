package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/queuetest"
)

// unreliable is a disk in memory. It fails at random, half-way through a write or in a sync, and what was not synced when the power goes
// is there in part: of each sector the newest or the one before.
type unreliable struct {
	now, synced []byte
	random      *rand.Rand
	failures    int // of a hundred calls
}

const sector = 512

var errDisk = errors.New("the disk failed")

func (u *unreliable) ReadAt(b []byte, at int64) (int, error) { return copy(b, u.now[at:]), nil }

func (u *unreliable) WriteAt(b []byte, at int64) (int, error) {
	if u.random.IntN(100) < u.failures {
		n := copy(u.now[at:], b[:u.random.IntN(len(b)+1)])
		return n, errDisk
	}
	return copy(u.now[at:], b), nil
}

// Sync forgets what it could not write, as Linux does: a second sync would say that all is well.
func (u *unreliable) Sync() error {
	if u.random.IntN(100) < u.failures {
		u.tear()
		return errDisk
	}
	copy(u.synced, u.now)
	return nil
}

func (u *unreliable) Close() error { return nil }

// tear lets some of what was not synced reach the disk, and the rest not.
func (u *unreliable) tear() {
	for at := 0; at < len(u.now); at += sector {
		if !bytes.Equal(u.now[at:at+sector], u.synced[at:at+sector]) && u.random.IntN(2) == 0 {
			copy(u.synced[at:at+sector], u.now[at:at+sector])
		}
	}
}

func (u *unreliable) powerLoss() {
	u.tear()
	copy(u.now, u.synced)
}

func memoryJournal(random *rand.Rand, failures int) (*journal, *unreliable) {
	const half = smallestHalf
	u := &unreliable{now: make([]byte, 2*half), synced: make([]byte, 2*half), random: random, failures: failures}
	return &journal{file: u, journalShape: journalShape{half: half, salt: [8]byte{1}}}, u
}

func record(body []byte) []byte { return append(newRecord(nil), body...) }

// replayed is what a journal holds behind a mark, in one or two generations, and the journal at their end.
func replayed(t *testing.T, j *journal, mark journalMark) (bodies [][]byte) {
	t.Helper()
	keep := func(body []byte) error { bodies = append(bodies, bytes.Clone(body)); return nil }
	if _, err := j.replay(mark, keep); err != nil {
		t.Fatal(err)
	}
	first, next := *j, *j
	n, err := next.replay(next.turn(), keep)
	if err != nil {
		t.Fatal(err)
	}
	if *j = next; n == 0 {
		*j = first
	}
	return bodies
}

// Whatever fails and whenever the power goes: what was synced is there, once and in order, and nothing else, but perhaps the one group that
// was under way; and that is gone for good when another is written.
func TestJournalOnAnUnreliableDisk(t *testing.T) {
	random := rand.New(rand.NewPCG(queuetest.Seed(t), 1))
	losses, failed, turns, kept := 0, 0, 0, 0
	for range 60 {
		j, disk := memoryJournal(random, 10)
		var mark journalMark // up to here the tree has it
		var want [][]byte    // behind it
		var frozen int       // how many of them are of the frozen generation
		var doubtful []byte
		for n := range 250 {
			body := bytes.Repeat([]byte{byte(n + 1)}, 1+random.IntN(1<<random.IntN(17)))
			if j.erase() != nil {
				continue
			}
			doubtful = nil
			if !j.fits(record(body)) {
				turns++
				mark = journalMark{generation: j.generation, number: j.number - uint64(len(want)-frozen)}
				want = slices.Delete(want, 0, frozen) // the tree has the frozen ones now
				frozen = len(want)
				j.turn()
			}
			if err := j.append(record(body)); err == nil {
				want = append(want, body)
			} else {
				failed++
				doubtful = body
			}
			if random.IntN(20) > 0 {
				continue
			}
			losses++
			disk.powerLoss()
			*j = journal{file: disk, journalShape: j.journalShape}
			got := replayed(t, j, mark)
			if len(got) == len(want)+1 && doubtful != nil && bytes.Equal(got[len(want)], doubtful) {
				kept++
				want = append(want, doubtful)
			}
			if !slices.EqualFunc(got, want, bytes.Equal) {
				t.Fatalf("%d groups came back of %d", len(got), len(want))
			}
			if j.generation == mark.generation {
				frozen = 0
			}
			disk.failures = 0
			if err := j.secure(); err != nil {
				t.Fatal(err)
			}
			disk.failures = 10
		}
	}
	t.Logf("%d losses of power, %d failed writes, %d of them there after all, %d turns", losses, failed, kept, turns)
	if losses == 0 || failed == 0 || turns == 0 || kept == 0 {
		t.Error("not all was met: this test tests nothing")
	}
}

// fillJournal appends groups of one block each.
func fillJournal(t *testing.T, j *journal, groups int) {
	t.Helper()
	for n := range groups {
		if err := j.append(record(fmt.Appendf(nil, "group %d", n+1))); err != nil {
			t.Fatal(err)
		}
	}
}

// A group that is not whole ends the journal if it is the last, wherever it was cut off; any other is damage.
func TestJournalThatIsNotWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(queuetest.Seed(t), 2))
	j, disk := memoryJournal(random, 0)
	fillJournal(t, j, 4)
	body := bytes.Repeat([]byte("x"), 3*journalBlock)
	start, last := j.start(1), j.at
	if err := j.append(record(body)); err != nil {
		t.Fatal(err)
	}
	image := bytes.Clone(disk.now)
	for cut := last; cut < last+journalHeader+int64(len(body)); cut += 1 + random.Int64N(700) {
		copy(disk.now, image)
		clear(disk.now[start+cut:])
		if got := replayed(t, j, journalMark{}); len(got) != 4 {
			t.Fatalf("cut at %d: %d groups, want those before", cut-last, len(got))
		}
	}
	length := int64(journalHeader + len("group 1"))
	for group := range int64(4) {
		for bit := range length * 8 {
			copy(disk.now, image)
			disk.now[start+group*journalBlock+bit/8] ^= 1 << (bit % 8)
			if _, err := j.replay(journalMark{}, func([]byte) error { return nil }); !errors.Is(err, queue.ErrConflict) {
				t.Fatalf("group %d, bit %d flipped: error %v, want conflict", group+1, bit, err)
			}
		}
	}
}

// What an earlier generation left, and what a submitter wrote to look like a group, is none.
func TestJournalTakesNothingElseForAGroup(t *testing.T) {
	random := rand.New(rand.NewPCG(queuetest.Seed(t), 3))
	j, disk := memoryJournal(random, 0)
	fillJournal(t, j, 9)
	j.turn()
	fillJournal(t, j, 9)
	mark := j.turn() // the first half again
	fillJournal(t, j, 2)
	if got := replayed(t, j, mark); len(got) != 2 {
		t.Errorf("%d groups, want the two of the newest generation", len(got))
	}
	// A payload in blocks of its own that guesses all but the salt, in a group that was cut off.
	forger := journal{file: disk, journalShape: journalShape{half: j.half}, journalMark: journalMark{generation: j.generation, number: j.number + 1}}
	forged := record([]byte("a group?"))
	binary.BigEndian.PutUint32(forged, journalMagic)
	binary.BigEndian.PutUint64(forged[8:], forger.generation+1)
	binary.BigEndian.PutUint64(forged[16:], forger.number+1)
	binary.BigEndian.PutUint32(forged[24:], uint32(len(forged)-journalHeader))
	binary.BigEndian.PutUint32(forged[4:], forger.checksum(forged))
	copy(disk.now[j.start(j.generation+1)+j.at+journalBlock:], forged)
	if got := replayed(t, j, mark); len(got) != 2 {
		t.Errorf("%d groups, want two: a payload was taken for a group", len(got))
	}
	forger.salt = j.salt
	binary.BigEndian.PutUint32(forged[4:], forger.checksum(forged))
	copy(disk.now[j.start(j.generation+1)+j.at+journalBlock:], forged)
	if _, err := j.replay(mark, func([]byte) error { return nil }); !errors.Is(err, queue.ErrConflict) {
		t.Errorf("with the salt: error %v; it was not met at all", err)
	}
}

// A group's changes survive the journal.
func TestChangesComeBack(t *testing.T) {
	secret := queue.Secret{1, 2, 3}
	want := &changes{
		state: state{epoch: 3, cursor: 9, stored: 2, dead: 1, owner: "someone"}, cost: 77, secret: &secret,
		workers: workersOf("a", "b"), audit: []queue.AuditLine{{Number: 4, At: when, Action: "drop", Text: "ann"}},
	}
	for i, e := range entries() {
		want.rows = append(want.rows, row{Entry: e, gone: i == 3})
	}
	want.rows[0].job = encodeJob(jobs()[1])
	fields := appendChanges(nil, want)
	got, err := decodeChanges(fields)
	if err != nil {
		t.Fatal(err)
	}
	if again := appendChanges(nil, got); !bytes.Equal(again, fields) {
		t.Errorf("%q became %q", fields, again)
	}
	if len(got.rows) != 4 || got.rows[1].Entry != want.rows[1].Entry || !got.rows[3].gone || *got.secret != secret || len(got.workers) != 2 {
		t.Errorf("got %+v", got)
	}
	for n := range fields {
		if _, err := decodeChanges(fields[:n]); err == nil {
			t.Errorf("cut to %d of %d bytes and nobody noticed", n, len(fields))
		}
	}
}

// A journal that is missing or shorter than it was is refused.
func TestJournalFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	shape, err := createJournal(path, smallestHalf, bytes.NewReader(make([]byte, 8)))
	if err != nil {
		t.Fatal(err)
	}
	j, err := openJournal(path, shape)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 2*smallestHalf-1); err != nil {
		t.Fatal(err)
	}
	if _, err := openJournal(path, shape); !errors.Is(err, queue.ErrConflict) {
		t.Errorf("cut off: error %v, want conflict", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := openJournal(path, shape); !errors.Is(err, queue.ErrConflict) {
		t.Errorf("missing: error %v, want conflict", err)
	}
}
