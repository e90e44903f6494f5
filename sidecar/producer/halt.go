package producer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// A terminal failure is not healed by a restart: nothing is loaded before a person has changed spec.recoverNonce. The pod
// remembers it in a file, for its own next process, which may start before the operator knows; the flow's Lease says it to a member that
// takes the queue over before the operator has told it; the operator remembers it in the flow's status and tells every pod.

// haltRecord is the file, and the annotation of the Lease.
type haltRecord struct {
	RecoverNonce int64              `json:"recoverNonce"`
	Halt         runtimeconfig.Halt `json:"halt"`
}

// haltedBy returns the failure that keeps the queue from being loaded, nil if none does: by the configuration, by the word that was left at
// the Lease, or by the file. A record that cannot be read is that of a failure which nobody knows any more; it is replaced by one that says
// so, under the nonce in force, so that changing the nonce answers it. A record of another nonce is answered, and removed. The error
// says that this could not be done: the failure is returned nevertheless.
func haltedBy(file, word string, document runtimeconfig.Producer) (*delivery.Failed, error) {
	if document.Halted != nil {
		return failedOf(*document.Halted), nil
	}
	if left, err := decodeHalt([]byte(word)); err == nil && left.RecoverNonce == document.RecoverNonce {
		return failedOf(left.Halt), nil
	}
	record, err := readHalt(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		unknown := delivery.Failed{Stage: delivery.StageLoad, Cause: fmt.Errorf("an earlier process failed for good, and why is not known: %w", err)}
		return &unknown, recordHalt(file, document, unknown)
	case record.RecoverNonce != document.RecoverNonce:
		return nil, forgetHalt(file)
	}
	return failedOf(record.Halt), nil
}

// forgetHalt removes the record of a failure that a person has answered, so that it does not come back where the nonce is changed back.
func forgetHalt(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the record of a failure: %w", err)
	}
	return nil
}

func readHalt(file string) (haltRecord, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return haltRecord{}, fmt.Errorf("reading the record of a failure: %w", err)
	}
	return decodeHalt(raw)
}

func decodeHalt(raw []byte) (haltRecord, error) {
	var record haltRecord
	if err := json.Unmarshal(raw, &record); err != nil {
		return haltRecord{}, fmt.Errorf("decoding the record of a failure: %w", err)
	}
	if record.Halt.Stage == "" {
		return haltRecord{}, errors.New("the record of a failure names none")
	}
	return record, nil
}

// haltOf is what is written down of a terminal failure. Two kinds are left out: data of a newer format, which the right version can load,
// and the end of one member of several, which is none of the flow.
func haltOf(document runtimeconfig.Producer, f delivery.Failed) (record haltRecord, ok bool) {
	halt := runtimeconfig.Halt{Stage: string(f.Stage), Code: codeOf(f), Reason: protocol.ClipReason(f.Cause.Error())}
	shared := document.QueueType != queueLocal && document.QueueType != queueMemory && document.QueueType != ""
	ok = halt.Code != runtimeconfig.FailureFormat && (!shared || halt.Code != runtimeconfig.FailureFenced)
	return haltRecord{RecoverNonce: document.RecoverNonce, Halt: halt}, ok
}

// word is the record as text.
func (r haltRecord) word() string {
	raw, err := json.Marshal(r)
	if err != nil { // impossible for strings and a number
		return ""
	}
	return string(raw)
}

// recordHalt writes a terminal failure down.
func recordHalt(file string, document runtimeconfig.Producer, f delivery.Failed) error {
	record, ok := haltOf(document, f)
	if !ok {
		return nil
	}
	if err := replace(file, []byte(record.word())); err != nil {
		return fmt.Errorf("writing the record of a failure: %w", err)
	}
	return nil
}

// replace writes a file beside the old one and renames it, so that a kill leaves one of the two, whole.
func replace(path string, content []byte) error {
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, failure := file.Write(content)
	if err := errors.Join(failure, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// pastFailure is the cause of a failure of an earlier process. It is an error of the queue as far as its code tells.
type pastFailure struct {
	reason string
	kind   error
}

func (p pastFailure) Error() string { return p.reason }
func (p pastFailure) Unwrap() error { return p.kind }

func failedOf(h runtimeconfig.Halt) *delivery.Failed {
	cause := pastFailure{reason: h.Reason}
	switch h.Code {
	case runtimeconfig.FailureFenced:
		cause.kind = queue.ErrFenced
	case runtimeconfig.FailureConflict, runtimeconfig.FailureProtocol:
		cause.kind = queue.ErrConflict
	}
	return &delivery.Failed{Stage: delivery.Stage(h.Stage), Cause: cause}
}
