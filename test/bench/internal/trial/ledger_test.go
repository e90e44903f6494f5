package trial

import (
	"path/filepath"
	"strings"
	"testing"
)

func newLedger(t *testing.T) *Ledger {
	t.Helper()
	l, err := OpenLedger(filepath.Join(t.TempDir(), "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestLedgerVerifies(t *testing.T) {
	for name, c := range map[string]struct {
		account func(*Ledger)
		want    string
	}{
		"each once":        {func(*Ledger) {}, ""},
		"a repeat":         {func(l *Ledger) { l.Handle(5, 66, true) }, "1 jobs were handled more than once"},
		"wrong bytes":      {func(l *Ledger) { l.Handle(0, 3, false) }, "1 jobs were handled with bytes that nobody sent"},
		"no such number":   {func(l *Ledger) { l.Handle(0, MaxJobs, true) }, "bytes that nobody sent"},
		"one more":         {func(l *Ledger) { l.Handle(0, 70, true) }, "some that nobody sent"},
		"one lost":         {func(l *Ledger) { _, _ = l.Take(1); l.Accept(1) }, "job 70 is the first that was lost"},
		"one not accepted": {func(l *Ledger) { _, _ = l.Take(1); l.Handle(0, 70, true) }, "71 jobs were submitted and 70 accepted"},
	} {
		l := newLedger(t)
		first, ok := l.Take(70)
		if first != 0 || !ok {
			t.Fatalf("the first number is %d (%t)", first, ok)
		}
		l.Accept(70)
		for number := range uint64(70) {
			l.Handle(int(number%3), number, true)
		}
		c.account(l)
		err := l.Verify()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestLedgerIsShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	one, err := OpenLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	other, err := OpenLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	one.SetPhase(Running)
	one.Handle(MaxWorkers+1, 0, true) // shares a place with another worker
	if other.Phase() != Running || other.Handled() != 1 {
		t.Errorf("the other process sees phase %d and %d jobs", other.Phase(), other.Handled())
	}
}

func TestLedgerGivesOutWhatItHasRoomFor(t *testing.T) {
	l := newLedger(t)
	if _, ok := l.Take(MaxJobs - 1); !ok {
		t.Fatal("there is no room")
	}
	if _, ok := l.Take(2); ok {
		t.Error("a number was given out that there is no room for")
	}
	if first, ok := l.Take(1); first != MaxJobs-1 || !ok {
		t.Errorf("the last number is %d (%t)", first, ok)
	}
}

func TestLedgerMeasuresFromItsMoment(t *testing.T) {
	l := newLedger(t)
	if _, ok := l.Measures(5); ok {
		t.Error("times are measured before anybody asked for it")
	}
	l.MeasureFrom(5)
	_, before := l.Measures(4)
	if since, ok := l.Measures(7); before || !ok || since != 2 {
		t.Errorf("times are measured before the moment (%t), or not from it on (%s, %t)", before, since, ok)
	}
}
