package running

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// FuzzOpen takes over any file, with the checksums that its records have and with right ones. The sidecar starts whatever is in it (the
// kubelet's volume may be full, or torn), unless another version wrote it; what is left is what nobody has ended, and it is the same for
// the process after that.
func FuzzOpen(f *testing.F) {
	must := func(raw []byte, err error) []byte {
		if err != nil {
			f.Fatal(err)
		}
		return raw
	}
	run := endpoint.LeftRun{Flow: "orders", Claim: claim("a", 1)}
	whole := must(appendBegun(bytes.Clone(header), &run))
	run.Claim.MessageID = "b"
	whole = must(appendEnded(must(appendBegun(whole, &run)), "a"))
	f.Add(whole, false)
	f.Add(whole, true)
	f.Add(whole[:len(whole)-1], false)
	f.Add(append(bytes.Clone(header), make([]byte, 100)...), true)
	f.Add([]byte("6e2b9a01 {}\n"), false)
	path := filepath.Join(f.TempDir(), "running")
	f.Fuzz(func(t *testing.T, raw []byte, sealed bool) {
		if sealed {
			raw = sealAll(raw)
		}
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		first, left, err := Open(path)
		if foreign(raw) && errors.Is(err, ErrForeign) {
			return
		}
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

// sealAll takes raw for records, by their lengths, and gives each a right checksum.
func sealAll(raw []byte) []byte {
	out := bytes.Clone(header)
	for rest := bytes.TrimPrefix(raw, header); len(rest) >= prefixBytes; {
		end := min(prefixBytes+int(binary.LittleEndian.Uint16(rest[sumBytes:])), len(rest))
		record := bytes.Clone(rest[:end])
		if seal(record) == nil {
			out = append(out, record...)
		}
		rest = rest[end:]
	}
	return out
}
