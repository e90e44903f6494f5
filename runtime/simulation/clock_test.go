package simulation

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestLocalClockIsItsOwnInverse(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 10_000 {
		c := localClock{boot: time.Duration(rng.Int64N(int64(time.Hour))), drift: rng.Int64N(200_001) - 100_000}
		shows := time.Duration(rng.Int64N(int64(time.Hour)))
		if at := c.when(shows); c.read(at) < shows || c.read(at-1) >= shows {
			t.Fatalf("%+v shows %v at %v, wanted %v", c, c.read(at), at, shows)
		}
	}
	fast := localClock{boot: time.Second, drift: 10_000}
	if got := fast.read(101 * time.Second); got != 101*time.Second {
		t.Errorf("a clock one percent too fast shows %v after 100 s", got)
	}
}
