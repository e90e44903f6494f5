package memory

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

const testWindow = time.Hour

// plainTable is the table in its plainest form.
type plainTable struct {
	entries map[string]ledger.Entry
	payload map[string]string
	aging   []string
}

func (p *plainTable) put(e ledger.Entry, payload string) {
	if e.Aging() && !p.entries[e.MessageID].Aging() {
		p.aging = append(p.aging, e.MessageID)
	}
	p.entries[e.MessageID] = e
	if payload != "" {
		p.payload[e.MessageID] = payload
	}
	if e.Settled() {
		delete(p.payload, e.MessageID)
	}
}

func (p *plainTable) forget(now time.Time, limit int) int {
	n := 0
	for n < min(limit, len(p.aging)) && p.entries[p.aging[n]].Expired(now, testWindow) {
		delete(p.entries, p.aging[n])
		n++
	}
	p.aging = p.aging[n:]
	return n
}

// twins are both, and what is done to both.
type twins struct {
	*testing.T
	random *rand.Rand
	table  *table
	plain  plainTable
	now    time.Time
	first  int64 // sequences are above it
	last   int64
}

// What was put is found by either name and nothing else, whatever ids share of their hashes, however many there are, in the order of their
// sequences, until it is forgotten in the order in which the windows started; and then nothing is left.
func TestTableIsAPlainTable(t *testing.T) {
	for name, bits := range map[string]uint32{"whole hashes": math.MaxUint32, "few hashes": 0xc0000003, "one hash": 0} {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			for round := range uint64(4) {
				tw := &twins{
					T: t, random: rand.New(rand.NewPCG(seed, round)), table: newTable(), now: time.Unix(1_700_000_000, 5).UTC(),
					plain: plainTable{entries: map[string]ledger.Entry{}, payload: map[string]string{}},
				}
				tw.table.hashed = bits
				if round%2 == 1 {
					tw.first = protocol.MaxSequence - 1<<20
				}
				tw.last = tw.first
				tw.live(2_000)
				tw.drain()
			}
		})
	}
}

func (t *twins) live(steps int) {
	t.Helper()
	for range steps {
		switch n := t.random.IntN(10); {
		case n < 4:
			t.store()
		case n < 9:
			t.alter()
		default:
			t.forget()
		}
	}
	t.compare()
}

// store puts a new entry; some are over from the start, and some sequences lie far behind the others, as those of old jobs do.
func (t *twins) store() {
	id := fmt.Sprint(t.last, strings.Repeat("x", t.random.IntN(20)))
	if t.random.IntN(100) == 0 {
		id = (id + strings.Repeat("y", protocol.MaxIDBytes))[:protocol.MaxIDBytes]
	}
	t.last++
	if t.random.IntN(100) == 0 {
		t.last += perFrame * t.random.Int64N(3)
	}
	e := ledger.Entry{
		JobRef: queue.JobRef{MessageID: id, StoreSeq: t.last}, Digest: queue.Digest{byte(t.random.Int()), 31: byte(t.random.Int())},
		Status: ledger.Stored, StoredAt: t.now, PayloadBytes: len(id),
	}
	job := &protocol.Job{MessageID: id, Payload: []byte("payload of " + id), Headers: map[string]string{"for": id}}
	after := e
	if t.random.IntN(20) == 0 {
		t.settle(&after)
	}
	t.put(ledger.Change{After: after}, job)
}

func (t *twins) settle(e *ledger.Entry) {
	e.Accepted, e.Status, e.PayloadBytes, e.Reason, e.Since = true, ledger.Confirmed, 0, "", t.now
	if t.random.IntN(4) == 0 {
		e.Status = ledger.Dropped
	}
}

func (t *twins) put(c ledger.Change, job *protocol.Job) {
	t.table.put(&c, job)
	payload := ""
	if job != nil {
		payload = string(job.Payload)
		clear(job.Payload) // it was not the table's
	}
	t.plain.put(c.After, payload)
}

// alter changes an entry whose window does not run.
func (t *twins) alter() {
	living := t.living()
	if len(living) == 0 {
		return
	}
	e := living[t.random.IntN(len(living))]
	c := ledger.Change{Before: e, Job: -1}
	switch n := t.random.IntN(8); {
	case n == 0 && !e.Settled():
		e.Status, e.Since, e.Reason = ledger.DeadLettered, t.now, "poison"
	case n == 1:
		e.Attempts, e.Uncounted = max(e.Attempts, t.random.Int()>>t.random.IntN(64)), 7
	case n == 2 && !e.Accepted:
		e.Status, e.PayloadBytes, e.Reason, e.Since = ledger.Confirmed, 0, "", time.Time{} // it waits for its accept
	default:
		t.settle(&e)
	}
	c.After = e
	t.put(c, nil)
}

// living are the entries that are no tombstones, ascending.
func (t *twins) living() []ledger.Entry {
	var living []ledger.Entry
	for e := range maps.Values(t.plain.entries) {
		if !e.Aging() {
			living = append(living, e)
		}
	}
	slices.SortFunc(living, func(a, b ledger.Entry) int { return cmp.Compare(a.StoreSeq, b.StoreSeq) })
	return living
}

func (t *twins) forget() {
	t.now = t.now.Add(time.Duration(t.random.Int64N(int64(testWindow / 4))))
	limit := t.random.IntN(200)
	if got, want := t.table.forget(t.now, testWindow, limit), t.plain.forget(t.now, limit); got != want {
		t.Fatalf("forgot %d, want %d", got, want)
	}
	if t.random.IntN(5) == 0 {
		t.compare()
	}
}

func (t *twins) compare() {
	t.Helper()
	stored, dead := 0, 0
	for id, want := range t.plain.entries {
		for what, look := range map[string]func() (ledger.Entry, bool, error){
			"id":       func() (ledger.Entry, bool, error) { return t.table.ByID(id) },
			"sequence": func() (ledger.Entry, bool, error) { return t.table.BySequence(want.StoreSeq) },
		} {
			got, ok, err := look()
			if want.Aging() { // no one asks when it was stored, or for vain deliveries
				want.StoredAt, want.Uncounted = time.Time{}, 0
			}
			if !ok || err != nil || got != want {
				t.Fatalf("by %s: found %v, error %v, (-want +got)\n%s", what, ok, err, gocmp.Diff(want, got))
			}
		}
		t.comparePayload(want)
		switch want.Status {
		case ledger.Stored:
			stored++
		case ledger.DeadLettered:
			dead++
		default:
		}
	}
	if t.table.stored != stored || t.table.dead != dead {
		t.Fatalf("%d stored and %d dead, want %d and %d", t.table.stored, t.table.dead, stored, dead)
	}
	t.compareAbsent()
	t.compareRecords()
}

func (t *twins) comparePayload(e ledger.Entry) {
	t.Helper()
	payload, headers := "", map[string]string(nil)
	if r := t.table.unsettled(e.StoreSeq); r != nil {
		job := r.job()
		payload, headers = string(job.Payload), job.Headers
	}
	if r := recordOf(t.table, e.StoreSeq); r != nil && r.Settled() && (r.payload != nil || r.headers != nil) {
		t.Fatalf("message %q is over and has still a payload", e.MessageID)
	}
	if r := t.table.unsettled(e.StoreSeq); r != nil && (cap(r.payload) > 2*len(r.payload) || cap(r.headers) > 2*len(r.headers)) {
		t.Fatalf("message %q keeps room for %d bytes and uses %d", e.MessageID, cap(r.payload), len(r.payload))
	}
	want, held := t.plain.payload[e.MessageID]
	if payload != want || held && headers["for"] != e.MessageID {
		t.Fatalf("message %q has the payload %q and the headers %v, want %q", e.MessageID, payload, headers, want)
	}
}

func recordOf(t *table, seq int64) *record {
	p, i := t.pages.find(seq)
	return p.record(i)
}

func (t *twins) compareAbsent() {
	t.Helper()
	held := map[int64]bool{}
	for e := range maps.Values(t.plain.entries) {
		held[e.StoreSeq] = true
	}
	for seq := max(0, t.first-perFrame); seq < t.last+perFrame; seq++ {
		if _, ok, _ := t.table.BySequence(seq); ok != held[seq] {
			t.Fatalf("sequence %d is held: %v, want %v", seq, ok, held[seq])
		}
		if id := fmt.Sprint(seq); t.plain.entries[id].StoreSeq == 0 {
			if e, ok, _ := t.table.ByID(id); ok {
				t.Fatalf("message %q, which is not there, is %+v", id, e)
			}
		}
	}
}

func (t *twins) compareRecords() {
	t.Helper()
	after := t.first + t.random.Int64N(t.last-t.first+1)
	var got, want []int64
	for r := range t.table.records(after) {
		got = append(got, r.StoreSeq)
	}
	for _, e := range t.living() {
		if e.StoreSeq > after {
			want = append(want, e.StoreSeq)
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("records above %d (-want +got)\n%s", after, diff)
	}
}

// drain settles and forgets everything.
func (t *twins) drain() {
	t.Helper()
	for _, e := range t.living() {
		c := ledger.Change{Before: e, After: e, Job: -1}
		t.settle(&c.After)
		t.put(c, nil)
	}
	t.now = t.now.Add(testWindow)
	for t.table.forget(t.now, testWindow, 100) > 0 {
		t.plain.forget(t.now, 100)
	}
	t.compare()
	used := 0
	for i := range t.table.ids.shards {
		s := &t.table.ids.shards[i]
		used += s.used
		if len(s.slots) > fewestSlots {
			t.Errorf("an empty shard has %d slots", len(s.slots))
		}
	}
	if used != 0 || len(t.plain.entries) != 0 || len(t.table.pages.byHead) != 0 || t.table.pages.frames.all != nil ||
		len(t.table.yard.blocks.all)-len(t.table.yard.blocks.free) > 2 {
		t.Errorf("left of %d entries: %d hashes, %d pages, %d blocks", len(t.plain.entries), used, len(t.table.pages.byHead),
			len(t.table.yard.blocks.all)-len(t.table.yard.blocks.free))
	}
}

// What was read is the reader's: memory that the table uses again is not what it gave away.
func TestReadJobsOutliveTheirRecords(t *testing.T) {
	table := newTable()
	put := func(seq int64, status ledger.Status, before ledger.Entry) ledger.Entry {
		id := fmt.Sprint("job-", seq)
		after := ledger.Entry{JobRef: queue.JobRef{MessageID: id, StoreSeq: seq}, Status: status, Accepted: true}
		table.put(&ledger.Change{Before: before, After: after}, &protocol.Job{MessageID: id, Payload: []byte(id), Headers: map[string]string{"key": id}})
		return after
	}
	first := put(1, ledger.Stored, ledger.Entry{})
	record := table.unsettled(1)
	read := record.job()
	put(1, ledger.Confirmed, first)
	if kept := record.headers[:cap(record.headers)]; !slices.Equal(kept, make([]string, len(kept))) {
		t.Errorf("a spare record keeps %q in memory", kept)
	}
	put(2, ledger.Stored, ledger.Entry{})
	if table.unsettled(2) != record {
		t.Fatal("the record was not used again: the test tests nothing")
	}
	want := protocol.Job{MessageID: "job-1", Payload: []byte("job-1"), Headers: map[string]string{"key": "job-1"}}
	if diff := gocmp.Diff(want, read); diff != "" {
		t.Errorf("job read before (-want +got)\n%s", diff)
	}
}

// A tombstone is small and a garbage collection has next to nothing to follow in it, however many there are.
func TestTombstonesAreSmall(t *testing.T) {
	const ids = 200_000
	table := newTable()
	before := heap()
	for seq := int64(1); seq <= ids; seq++ {
		table.put(&ledger.Change{After: ledger.Entry{
			JobRef: queue.JobRef{MessageID: fmt.Sprint("job-", 1_000_000_000+seq), StoreSeq: seq}, Status: ledger.Confirmed, Accepted: true,
		}}, nil)
	}
	after := heap()
	bytes, objects := float64(after.HeapAlloc-before.HeapAlloc)/ids, float64(after.HeapObjects-before.HeapObjects)/ids
	t.Logf("%.1f bytes and %.3f objects an id", bytes, objects)
	if bytes > 120 || objects > 0.05 {
		t.Errorf("%.1f bytes and %.3f objects an id, want at most 120 and 0.05", bytes, objects)
	}
	runtime.KeepAlive(table)
}

func heap() (stats runtime.MemStats) {
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats
}
