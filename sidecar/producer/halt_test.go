package producer

import (
	"errors"
	"os"
	"path/filepath"
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
		f, err := haltedBy(file, document)
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
	document.Halted = nil
	if err := os.WriteFile(file, []byte(`{"recoverNonce": 3, "ha`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := halted(); got != nil {
		t.Errorf("halted by half a record: %v", got)
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
		if got, err := haltedBy(file, document); got != nil || err != nil {
			t.Errorf("%s: halted by %v, %v", name, got, err)
		}
	}
}
