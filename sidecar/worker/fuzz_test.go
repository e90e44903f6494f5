package worker

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
)

type fixedRandom struct{}

func (fixedRandom) ID() string       { return "id" }
func (fixedRandom) Float64() float64 { return 0 }

// FuzzConfiguration reads any document: a machine that is made from it registers with a window that exists, and asks for no timer in
// the past.
func FuzzConfiguration(f *testing.F) {
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"flowControlWindow":-1,"concurrency":1000000000,"resendIntervalMilliseconds":-9223372036854775808}`))
	full, err := json.Marshal(runtimeconfig.Worker{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var document runtimeconfig.Worker
		if json.Unmarshal(raw, &document) != nil {
			return
		}
		config := consumerConfig(document)
		g := delivery.NewConsumerGroup(config, protocol.Incarnation{PodUID: "p", BootNonce: "b"}, fixedRandom{}, "flow")
		g.Step(0, delivery.AppReady{Ready: true})
		for _, action := range g.Step(time.Second, delivery.Connected{Conn: 1, Flow: "flow"}) {
			if say, ok := action.(delivery.ToController); ok {
				if m, ok := say.Message.(protocol.RegisterConsumer); ok && m.Validate() != nil {
					t.Errorf("it registers with %+v", m)
				}
			}
		}
		if at, ok := g.NextDeadline(); ok && at < 0 {
			t.Errorf("the next deadline is %v", at)
		}
	})
}
