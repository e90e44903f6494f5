package flowtest

import (
	"testing"

	"github.com/workpulling/workpulling/runtime/queue/queuetest"
)

type scenario struct {
	name string
	run  func(*world)
}

// Run runs every scenario over a back-end.
func Run(t *testing.T, b queuetest.Backend) {
	for _, group := range []struct {
		name  string
		tests []scenario
	}{
		{"Crash", crashes},
		{"Lane", lanes},
		{"Takeover", takeovers},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, s := range group.tests {
				t.Run(s.name, func(t *testing.T) { s.run(newWorld(t, b)) })
			}
		})
	}
}
