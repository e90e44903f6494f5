package delivery

import (
	"testing"
	"time"
)

func TestHappyPath(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.worker("a", nil), w.worker("b", nil)
	a.auto, b.auto = confirmAll, confirmAll
	p := w.producer(16)
	w.submit(p, "job-", 500)
	w.advance(3 * time.Second)
	st := w.ctl.Stats()
	w.equal("accepted", st.Accepted, 500)
	w.equal("confirmed", st.Confirmed, 500)
	w.equal("redelivered", st.Redelivered, 0)
	w.equal("settled", len(w.settled), 500)
	w.equal("held", len(w.ctl.jobs), 0)
	w.equal("stored", len(p.stored), 500)
}
