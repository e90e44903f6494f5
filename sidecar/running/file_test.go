package running

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
)

func claim(id string, seq int64) protocol.Claim {
	return protocol.Claim{MessageID: id, StoreSeq: seq, Attempt: 2, Ticket: protocol.Ticket{1, 2, byte(seq)}, State: protocol.ClaimLost}
}

func open(t *testing.T, path string) (*File, []string) {
	t.Helper()
	f, left, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	var ids []string
	for _, run := range left {
		ids = append(ids, run.Flow+"/"+run.Claim.MessageID)
	}
	return f, ids
}

func begin(t *testing.T, f *File, flow string, claims ...protocol.Claim) {
	t.Helper()
	for _, c := range claims {
		if err := f.Begin(flow, c); err != nil {
			t.Fatal(err)
		}
	}
}

// B-087: what a process had begun and not ended is left for the next one, whole, and what ended is not.
func TestTheNextProcessFindsWhatIsLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "running")
	f, left := open(t, path)
	if len(left) > 0 {
		t.Fatalf("a new file holds %v", left)
	}
	begin(t, f, "orders", claim("a", 1), claim("b", 2), claim("ärger\u2028", 3))
	begin(t, f, "returns", protocol.Claim{MessageID: "old", StoreSeq: 4, Attempt: 1, State: protocol.ClaimLost})
	f.End("b")
	f.End("never began")

	_, got, err := Open(path) // as a kill leaves it: nothing was closed
	if err != nil {
		t.Fatal(err)
	}
	want := []endpoint.LeftRun{
		{Flow: "orders", Claim: claim("a", 1)},
		{Flow: "returns", Claim: protocol.Claim{MessageID: "old", StoreSeq: 4, Attempt: 1, State: protocol.ClaimLost}},
		{Flow: "orders", Claim: claim("ärger\u2028", 3)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// What is left stays left until it is ended, over any number of processes.
func TestWhatIsLeftOutlivesTheNextProcessToo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "running")
	f, _ := open(t, path)
	begin(t, f, "orders", claim("a", 1))
	f, _ = open(t, path)
	begin(t, f, "orders", claim("b", 2))
	f, left := open(t, path)
	if diff := cmp.Diff([]string{"orders/a", "orders/b"}, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	f.End("a")
	if _, left = open(t, path); len(left) != 1 {
		t.Errorf("left after the end: %v", left)
	}
}

// written is what the file at path holds, without the room that is left.
func written(t *testing.T, f *File) []byte {
	t.Helper()
	raw, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	return raw[:f.size]
}

// A file that is torn at any byte, whether it ends there or nothing was written behind it, gives what was whole before the tear, and is usable.
func TestATornTailIsIgnored(t *testing.T) {
	dir := t.TempDir()
	f, _ := open(t, filepath.Join(dir, "running"))
	ends := []int{f.size}
	begin(t, f, "orders", claim("a", 1))
	ends = append(ends, f.size)
	begin(t, f, "orders", claim("b", 2))
	ends = append(ends, f.size)
	f.End("a")
	ends = append(ends, f.size)
	begin(t, f, "orders", claim("c", 3))
	ends = append(ends, f.size)
	states := [][]string{nil, {"orders/a"}, {"orders/a", "orders/b"}, {"orders/b"}, {"orders/b", "orders/c"}}
	whole := written(t, f)
	for cut := range len(whole) + 1 {
		complete := 0
		for complete+1 < len(ends) && ends[complete+1] <= cut {
			complete++
		}
		for room := range 2 {
			torn := filepath.Join(dir, fmt.Sprint("torn-", cut, "-", room))
			if err := os.WriteFile(torn, append(whole[:cut:cut], make([]byte, room*100)...), 0o600); err != nil {
				t.Fatal(err)
			}
			g, left := open(t, torn)
			if diff := cmp.Diff(states[complete], left); diff != "" {
				t.Fatalf("torn after %d of %d bytes (-want +got):\n%s", cut, len(whole), diff)
			}
			begin(t, g, "orders", claim("later", 9))
			again, err := os.ReadFile(torn)
			if err != nil {
				t.Fatal(err)
			}
			h := File{runs: map[string]endpoint.LeftRun{}}
			if h.replay(again); len(h.runs) != len(left)+1 {
				t.Fatalf("after a tear at %d the file takes nothing more: %v", cut, h.runs)
			}
			g.Close()
			os.Remove(torn)
		}
	}
}

func TestAFlippedByteEndsTheReading(t *testing.T) {
	path := filepath.Join(t.TempDir(), "running")
	f, _ := open(t, path)
	begin(t, f, "orders", claim("a", 1))
	first := f.size
	begin(t, f, "orders", claim("b", 2))
	second := f.size
	begin(t, f, "orders", claim("c", 3))
	for at := first; at < second; at++ {
		raw := written(t, f)
		raw[at] ^= 0x40
		flipped := path + "-flipped"
		if err := os.WriteFile(flipped, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		g, left := open(t, flipped)
		if len(left) != 1 || left[0] != "orders/a" {
			t.Errorf("left %v with byte %d flipped, want a alone", left, at)
		}
		g.Close()
	}
}

// What another version wrote is neither read nor lost, and what no version wrote is no reason not to start: a node that crashed leaves
// zeros or nothing, and its app is gone too.
func TestAFileOfAnotherVersionIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want error
	}{
		"text":          {text: "6e2b9a01 {\"flow\":\"orders\",\"begin\":\"a\"}\n", want: ErrForeign},
		"a later one":   {text: "wp-run\x00\x03", want: ErrForeign},
		"a torn header": {text: "wp-run\x00"},
		"zeros":         {text: string(make([]byte, 4096))},
		"nothing":       {},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "running")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			f, left, err := Open(path)
			if !errors.Is(err, tc.want) || len(left) > 0 {
				t.Fatalf("left %v, error %v, want %v", left, err, tc.want)
			}
			if err == nil {
				f.Close()
				return
			}
			if raw, err := os.ReadFile(path); err != nil || string(raw) != tc.text {
				t.Errorf("the file was changed to %q, error %v", raw, err)
			}
		})
	}
}

// The file stays as large as it is however many jobs run, and grows with what is in progress.
func TestTheFileIsWrittenAnewWhenItIsFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "running")
	f, _ := open(t, path)
	begin(t, f, "orders", claim("stays", 1))
	for i := range 30_000 {
		begin(t, f, "orders", claim(fmt.Sprint("job-", i), int64(i+2)))
		f.End(fmt.Sprint("job-", i))
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() != fileBytes {
		t.Errorf("the file has %d bytes", info.Size())
	}
	long := strings.Repeat("x", 240)
	for i := range 10_000 {
		begin(t, f, "orders", claim(fmt.Sprint(long, i), int64(i+40_000)))
	}
	if _, left := open(t, path); len(left) != 10_001 || left[0] != "orders/stays" {
		t.Errorf("left %d, the first of them %v", len(left), left[0])
	}
}

// A volume that gives no room without a write is written with zeros, and one that cannot be mapped is written as files are.
func TestAPlainFileWorksTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "running")
	f, _ := open(t, path)
	plain, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := fill(plain, fileBytes); err != nil {
		t.Fatal(err)
	}
	if info, err := plain.Stat(); err != nil || info.Size() != fileBytes {
		t.Fatalf("the file is %+v, error %v", info, err)
	}
	if _, err := plain.WriteAt(header, 0); err != nil {
		t.Fatal(err)
	}
	_ = f.drop()
	f.surface = plain
	begin(t, f, "orders", claim("a", 1), claim("b", 2))
	f.End("a")
	if _, left := open(t, path); len(left) != 1 || left[0] != "orders/b" {
		t.Errorf("left %v, want b", left)
	}
}

// A run that cannot be written is refused and not remembered, and the file works again once the disk does.
func TestARunThatCannotBeWrittenIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "running")
	f, _ := open(t, path)
	begin(t, f, "orders", claim("a", 1))
	if err := os.Truncate(path, 0); err != nil { // no page of it is there any more, as on a disk that broke
		t.Fatal(err)
	}
	if err := f.Begin("orders", claim("b", 2)); err == nil {
		t.Fatal("a write to a file without pages succeeded")
	}
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	if err := f.Check(); err == nil {
		t.Fatal("the file was written in a directory that is gone")
	}
	if err := os.Rename(dir+"-away", dir); err != nil {
		t.Fatal(err)
	}
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	begin(t, f, "orders", claim("c", 3))
	if _, left := open(t, path); len(left) != 2 || left[0] != "orders/a" || left[1] != "orders/c" {
		t.Errorf("left %v, want a and c", left)
	}
}

// A file that is full and cannot be replaced takes no run, and the check that comes before the next one says so too. A worker that believed
// it would take a job a second and hand each back.
func TestAFileThatCannotBeReplacedStaysUnusable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	f, _ := open(t, filepath.Join(dir, "running"))
	f.size = f.room // as after a megabyte
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	if err := f.Begin("orders", claim("a", 1)); err == nil {
		t.Fatal("a run was recorded in a directory that is gone")
	}
	if err := f.Check(); err == nil {
		t.Error("the check does not see what stops the next run")
	}
	if err := os.Rename(dir+"-away", dir); err != nil {
		t.Fatal(err)
	}
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	begin(t, f, "orders", claim("b", 2))
}

// BenchmarkFile is what one job costs.
func BenchmarkFile(b *testing.B) {
	f, _, err := Open(filepath.Join(b.TempDir(), "running"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	b.ReportAllocs()
	for i := range b.N {
		id := fmt.Sprint("job-", i)
		if err := f.Begin("orders", claim(id, int64(i+1))); err != nil {
			b.Fatal(err)
		}
		f.End(id)
	}
}
