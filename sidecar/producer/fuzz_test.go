package producer

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/delivery"
)

type fixedRandom struct{}

func (fixedRandom) ID() string       { return "id" }
func (fixedRandom) Float64() float64 { return 0 }

// FuzzConfiguration reads any document: a machine that is made from it starts, and asks for no timer in the past.
func FuzzConfiguration(f *testing.F) {
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"heartbeatSeconds":-1,"deadlineSeconds":9223372036854775807,"maxWindow":-5,"queueAttempts":1000000000000}`))
	full, err := json.Marshal(runtimeconfig.Producer{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var document runtimeconfig.Producer
		if json.Unmarshal(raw, &document) != nil {
			return
		}
		config := controllerConfig(document)
		c := delivery.NewController(config, fixedRandom{})
		c.Step(0, delivery.Start{})
		c.Step(time.Second, delivery.Loaded{Op: 1, Epoch: 1})
		c.Step(2*time.Second, delivery.Reconfigure{Config: config})
		if at, ok := c.NextDeadline(); ok && at < 0 {
			t.Errorf("the next deadline is %v", at)
		}
		if deduplication(document) < 0 || maxPayload(document) < 1 {
			t.Errorf("window %v, payload %d", deduplication(document), maxPayload(document))
		}
		intakeOf(document)
	})
}

// FuzzHalt reads any record of a failure: a producer stays down with a reason, and starts only where a whole record is of a failure that a
// person has answered with another recoverNonce. Whatever the record was, the next change of the nonce starts it.
func FuzzHalt(f *testing.F) {
	f.Add([]byte(`{"recoverNonce":1,"halt":{"stage":"Load","code":"conflict","reason":"why"}}`), int64(1))
	f.Add([]byte(`{"recoverNonce":1,"halt":{"stage":"Protocol"}}`), int64(2))
	f.Add([]byte(`{"recoverNonce":`), int64(0))
	f.Add([]byte(`null`), int64(0))
	f.Add([]byte{}, int64(0))
	path := filepath.Join(f.TempDir(), "halt")
	f.Fuzz(func(t *testing.T, raw []byte, nonce int64) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		halted := func(nonce int64) *delivery.Failed {
			failed, err := haltedBy(path, "", runtimeconfig.Producer{RecoverNonce: nonce})
			if err != nil {
				t.Fatalf("%q with nonce %d: %v", raw, nonce, err)
			}
			return failed
		}
		failed := halted(nonce)
		if failed != nil && failed.Cause == nil {
			t.Errorf("%q with nonce %d halts without a cause", raw, nonce)
		}
		var record haltRecord
		answered := json.Unmarshal(raw, &record) == nil && record.Halt.Stage != "" && record.RecoverNonce != nonce
		if answered != (failed == nil) {
			t.Errorf("%q with nonce %d halts as %v", raw, nonce, failed)
		}
		if failed == nil {
			return
		}
		if halted(nonce) == nil {
			t.Errorf("%q with nonce %d is forgotten by the next start", raw, nonce)
		}
		if again := halted(nonce + 1); again != nil {
			t.Errorf("%q with nonce %d is not answered by another nonce: %v", raw, nonce, again)
		}
	})
}

// FuzzOwnSubject reads any token of the pod's own: whatever it is, it scopes idempotency keys by some name.
func FuzzOwnSubject(f *testing.F) {
	for _, claims := range []string{`{"sub":"system:serviceaccount:ns:sa"}`, `{"sub":""}`, `{"sub":1}`, `[]`, ``} {
		f.Add("h."+base64.RawURLEncoding.EncodeToString([]byte(claims))+".s\n", "ns")
	}
	f.Add("..", "")
	f.Add("a.b", "ns")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, token, namespace string) {
		if err := os.WriteFile(filepath.Join(dir, "token"), []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		if subject := ownSubject(dir, namespace); subject == "" {
			t.Errorf("the subject of %q is empty", token)
		}
	})
}
