package prestop

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzReadReport reads any answer of a sidecar: only one that says so is taken for the end of a drain, however long it is.
func FuzzReadReport(f *testing.F) {
	f.Add([]byte(`{"drained":true,"running":0,"buffered":0,"unsettled":0}`))
	f.Add([]byte(`{"drained":false,"running":2}`))
	f.Add([]byte(`{"drained":"yes"}`))
	f.Add([]byte(`null`))
	f.Add([]byte(strings.Repeat(" ", maxReport) + `{"drained":true}`))
	f.Add([]byte(`{"drained":true`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		report, err := readReport(bytes.NewReader(raw))
		if report.Drained && (err != nil || !bytes.Contains(bytes.ToLower(raw), []byte("true"))) {
			t.Errorf("%q is taken for a drain that is over, error %v", raw, err)
		}
	})
}
