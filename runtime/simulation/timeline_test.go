package simulation

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestTimelineKeepsOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var line timeline
	for range 1000 {
		line.plan(time.Duration(rng.IntN(50)), func() {})
	}
	var last moment
	for n := range 1000 {
		m, ok := line.next()
		if !ok || m.at < last.at || m.at == last.at && m.order < last.order {
			t.Fatalf("moment %d: %v after %v (%v)", n, m.at, last.at, ok)
		}
		last = m
	}
	if _, ok := line.next(); ok {
		t.Error("an empty timeline has a next moment")
	}
}
