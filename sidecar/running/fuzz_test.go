package running

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// FuzzOpen takes over any file, with the checksums that its lines have and with right ones. The sidecar starts whatever is in it (the
// kubelet's volume may be full, torn or written by another version), what is left is what nobody has ended, and it is the same for the
// process after that.
func FuzzOpen(f *testing.F) {
	lines := func(records ...record) []byte {
		var raw []byte
		for _, r := range records {
			line, err := r.line()
			if err != nil {
				f.Fatal(err)
			}
			raw = append(raw, line...)
		}
		return raw
	}
	claim := record{Flow: "orders", Begin: "a", StoreSeq: 1, Attempt: 2, Ticket: "01020304050607080910111213141516"}
	f.Add(lines(claim, record{Flow: "orders", Begin: "b", StoreSeq: 2, Attempt: 1}, record{End: "a"}), false)
	f.Add(lines(claim, claim)[:100], false)
	f.Add([]byte(`{"begin":"a","end":"a"}`+"\n"+`{"begin":"a","seq":-1,"attempt":0,"ticket":"zz"}`+"\n"+`{"end":"\u0000"}`+"\n"), true)
	f.Add([]byte("\n\n{}\nnull\n"), true)
	path := filepath.Join(f.TempDir(), "running")
	f.Fuzz(func(t *testing.T, raw []byte, seal bool) {
		if seal {
			var sealed []byte
			for body := range bytes.Lines(raw) {
				body = bytes.TrimSuffix(body, []byte("\n"))
				sealed = fmt.Appendf(sealed, "%08x %s\n", crc32.Checksum(body, castagnoli), body)
			}
			raw = sealed
		}
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		first, left, err := Open(path)
		if err != nil {
			t.Fatalf("opening %q: %v", raw, err)
		}
		for _, run := range left {
			if run.Claim.MessageID == "" || run.Claim.State != protocol.ClaimLost {
				t.Errorf("left %+v", run)
			}
		}
		first.Close()
		second, again, err := Open(path)
		if diff := cmp.Diff(left, again); err != nil || diff != "" {
			t.Fatalf("error %v, (-first +second)\n%s", err, diff)
		}
		for _, run := range again {
			second.End(run.Claim.MessageID)
		}
		second.Close()
		third, none, err := Open(path)
		if err != nil || len(none) > 0 {
			t.Fatalf("after the end of all: %v, %v", none, err)
		}
		third.Close()
	})
}
