package running

import (
	"bytes"
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

// A file that is torn at any byte gives what was whole before the tear, and is usable.
func TestATornTailIsIgnored(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "running")
	f, _ := open(t, path)
	begin(t, f, "orders", claim("a", 1), claim("b", 2))
	f.End("a")
	begin(t, f, "orders", claim("c", 3))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(whole), "\n"), "\n")
	states := [][]string{nil, {"orders/a"}, {"orders/a", "orders/b"}, {"orders/b"}, {"orders/b", "orders/c"}}
	for cut := range len(whole) + 1 {
		complete := strings.Count(string(whole[:cut]), "\n")
		if complete > len(lines) {
			t.Fatalf("%d lines", complete)
		}
		torn := filepath.Join(dir, fmt.Sprint("torn-", cut))
		if err := os.WriteFile(torn, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		g, left := open(t, torn)
		if diff := cmp.Diff(states[complete], left); diff != "" {
			t.Fatalf("torn after %d of %d bytes (-want +got):\n%s", cut, len(whole), diff)
		}
		begin(t, g, "orders", claim("later", 9))
		if _, again := open(t, torn); len(again) != len(left)+1 {
			t.Fatalf("after a tear at %d the file takes nothing more: %v", cut, again)
		}
	}
}

func TestAFlippedByteEndsTheReading(t *testing.T) {
	path := filepath.Join(t.TempDir(), "running")
	f, _ := open(t, path)
	begin(t, f, "orders", claim("a", 1), claim("b", 2), claim("c", 3))
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[bytes.Index(raw, []byte(`"b"`))+1] = 'x'
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, left := open(t, path); len(left) != 1 || left[0] != "orders/a" {
		t.Errorf("left %v, want a alone", left)
	}
}

// The file stays small however many jobs run.
func TestTheFileIsWrittenAnewWhenItHasGrown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "running")
	f, _ := open(t, path)
	begin(t, f, "orders", claim("stays", 1))
	for i := range 12_000 {
		begin(t, f, "orders", claim(fmt.Sprint("job-", i), int64(i+2)))
		f.End(fmt.Sprint("job-", i))
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > compactAt+4096 {
		t.Errorf("the file has %d bytes", info.Size())
	}
	if _, left := open(t, path); len(left) != 1 || left[0] != "orders/stays" {
		t.Errorf("left %v", left)
	}
}

// A run that cannot be written is refused and not remembered, and the file works again once the disk does.
func TestARunThatCannotBeWrittenIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "running")
	f, _ := open(t, path)
	begin(t, f, "orders", claim("a", 1))
	f.file.Close() // every write fails from now on
	if err := f.Begin("orders", claim("b", 2)); err == nil {
		t.Fatal("a write to a closed file succeeded")
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

// A file that has grown and cannot be replaced takes no run, and the check that comes before the next one says so too. A worker that believed
// it would take a job a second and hand each back.
func TestAFileThatCannotBeReplacedStaysUnusable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	f, _ := open(t, filepath.Join(dir, "running"))
	f.full = f.size // as after a megabyte
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
