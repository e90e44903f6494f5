package producer

import (
	"encoding/json"
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
