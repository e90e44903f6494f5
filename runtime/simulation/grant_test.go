package simulation

import (
	"testing"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// A worker may ask for the window above what is taken over, wherever that lies, and for what it brought with it.
func TestGrant(t *testing.T) {
	l := &link{binding: "b", grants: map[string]*grant{}}
	ack := protocol.RegistrationAck{BindingID: "b", Window: 5}
	l.acknowledged(ack)
	steps := []struct {
		name      string
		hear      func(g *grant)
		confirmed int64
		want      int64
	}{
		{"nothing yet", func(*grant) {}, 0, 5},
		{"some taken over above the watermark", func(g *grant) { g.takenOver(protocol.SettledAck{Above: []int64{3, 2}}) }, 0, 7},
		{"said twice", func(g *grant) { g.takenOver(protocol.SettledAck{Above: []int64{3}}) }, 0, 7},
		{"the watermark behind what was said", func(g *grant) { g.takenOver(protocol.SettledAck{UpTo: 3}) }, 1, 8},
		{"the watermark there", func(*grant) {}, 3, 8},
		{"a smaller window", func(*grant) { l.acknowledged(protocol.RegistrationAck{BindingID: "b", Window: 2}) }, 3, 8},
		{"adopted beyond it", func(*grant) {
			l.acknowledged(protocol.RegistrationAck{BindingID: "b", Window: 2, Adopted: []protocol.Adopted{{WorkerSeq: 9}}})
		}, 3, 9},
		{"the window beyond the adopted", func(*grant) {}, 5, 10},
	}
	for _, s := range steps {
		s.hear(l.grants["b"])
		if got := l.grants["b"].most(s.confirmed); got != s.want {
			t.Errorf("%s: %d, want %d", s.name, got, s.want)
		}
	}
	l.binding = "another"
	if l.acknowledged(ack); l.grants["b"].most(0) != 5 {
		t.Errorf("a binding that is begun anew allows %d", l.grants["b"].most(0))
	}
}
