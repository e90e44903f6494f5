package producer

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/queue"
)

// The failed nonce is recorded: a restart does not re-arm, a bump does.
func TestAHaltOutlivesARestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "failure.json")
	document := runtimeconfig.Producer{QueueType: queueLocal, RecoverNonce: 2}
	halted := func() *delivery.Failed {
		t.Helper()
		f, err := haltedBy(file, "", document)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if got := halted(); got != nil {
		t.Errorf("halted by %v before anything failed", got)
	}
	failure := delivery.Failed{Stage: delivery.StageAccept, Cause: queue.ErrConflict}
	if err := recordHalt(file, document, failure); err != nil {
		t.Fatal(err)
	}
	got := halted()
	if got == nil || got.Stage != delivery.StageAccept || !errors.Is(got.Cause, queue.ErrConflict) || got.Cause.Error() != queue.ErrConflict.Error() {
		t.Fatalf("halted by %v", got)
	}
	if codeOf(*got) != runtimeconfig.FailureConflict {
		t.Errorf("code %q", codeOf(*got))
	}
	document.RecoverNonce = 3
	if got := halted(); got != nil {
		t.Errorf("halted by %v after the nonce changed", got)
	}
	document.Halted = &runtimeconfig.Halt{Stage: "Store", Code: runtimeconfig.FailureFenced, Reason: "another pod has it"}
	if got := halted(); got == nil || got.Stage != delivery.StageStore || codeOf(*got) != runtimeconfig.FailureFenced {
		t.Errorf("halted by %v, the operator says otherwise", got)
	}
}

// Whoever finds a record that it cannot read does not know that nothing failed: the queue is not loaded before a person says so.
func TestAnUnreadableRecordHalts(t *testing.T) {
	for name, content := range map[string]string{
		"torn": `{"recoverNonce": 2, "ha`, "empty": "", "garbage": "\x00\x00", "no record": "null", "no failure": `{"recoverNonce": 1}`,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "failure.json")
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, tc := range []struct {
				nonce  int64
				halted bool
			}{{2, true}, {2, true}, {3, false}} {
				got, err := haltedBy(file, "", runtimeconfig.Producer{QueueType: queueLocal, RecoverNonce: tc.nonce})
				if err != nil {
					t.Fatal(err)
				}
				if (got != nil) != tc.halted {
					t.Errorf("with nonce %d: halted by %v", tc.nonce, got)
				}
				if got != nil && (got.Stage != delivery.StageLoad || !strings.Contains(got.Cause.Error(), "why is not known")) {
					t.Errorf("halted by %s: %v", got.Stage, got.Cause)
				}
			}
		})
	}
}

// What can be neither read nor replaced halts as well.
func TestARecordThatCannotBeReplacedHalts(t *testing.T) {
	file := t.TempDir() // a directory
	got, err := haltedBy(file, "", runtimeconfig.Producer{QueueType: queueLocal})
	if got == nil || err == nil {
		t.Errorf("halted by %v, %v", got, err)
	}
}

// A kill while a record is written leaves the one before or the new one: the new one is never written over the old.
func TestARecordIsReplacedAsAWhole(t *testing.T) {
	file := filepath.Join(t.TempDir(), "failure.json")
	record := func(nonce int64) []byte {
		t.Helper()
		document := runtimeconfig.Producer{QueueType: queueLocal, RecoverNonce: nonce}
		if err := recordHalt(file, document, delivery.Failed{Stage: delivery.StageStore, Cause: queue.ErrConflict}); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	want := record(1)
	before, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	record(2)
	if got, err := io.ReadAll(before); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the file of the first record now holds %q, %v", got, err)
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("left beside the record: %v, %v", left, err)
	}
}

// What was left at the Lease counts as long as nobody has answered it, and what nobody can read does not.
func TestAWordAtTheLeaseHalts(t *testing.T) {
	document := runtimeconfig.Producer{QueueType: "PostgreSQL", RecoverNonce: 2}
	record, ok := haltOf(document, delivery.Failed{Stage: delivery.StageAccept, Cause: queue.ErrConflict})
	if !ok {
		t.Fatal("a conflict is no failure of the flow")
	}
	for name, tc := range map[string]struct {
		word   string
		nonce  int64
		halted bool
	}{
		"not answered": {record.word(), 2, true},
		"answered":     {record.word(), 3, false},
		"no word":      {"", 2, false},
		"garbage":      {"{", 2, false},
	} {
		document.RecoverNonce = tc.nonce
		got, err := haltedBy(filepath.Join(t.TempDir(), "failure.json"), tc.word, document)
		if err != nil || (got != nil) != tc.halted {
			t.Errorf("%s: halted by %v, %v", name, got, err)
		}
		if got != nil && (got.Stage != delivery.StageAccept || !errors.Is(got.Cause, queue.ErrConflict)) {
			t.Errorf("%s: halted by %v", name, got)
		}
	}
}

func TestWhatHaltsNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		queueType string
		cause     error
	}{
		"data of a newer format": {queueLocal, queue.ErrUnsupportedFormat},
		"one member of several":  {"PostgreSQL", queue.ErrFenced},
	} {
		file := filepath.Join(t.TempDir(), "failure.json")
		document := runtimeconfig.Producer{QueueType: tc.queueType}
		if err := recordHalt(file, document, delivery.Failed{Stage: delivery.StageLoad, Cause: tc.cause}); err != nil {
			t.Fatal(err)
		}
		if got, err := haltedBy(file, "", document); got != nil || err != nil {
			t.Errorf("%s: halted by %v, %v", name, got, err)
		}
	}
}
