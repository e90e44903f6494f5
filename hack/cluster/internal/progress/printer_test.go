package progress

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestPrintfTellsTheTimeSinceTheStart(t *testing.T) {
	now := time.Unix(0, 0)
	var out strings.Builder
	p := New(&out, func() time.Time { return now })
	now = now.Add(65 * time.Second)
	p.Printf("%d of %d", 1, 2)
	if want := "[  65s] 1 of 2\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	New(nil, nil).Printf("silence")
}

func TestWhileReturnsWhatTheWorkReturns(t *testing.T) {
	reason := errors.New("the reason")
	if err := New(nil, nil).While(func() string { return "" }, func() error { return reason }); !errors.Is(err, reason) {
		t.Error(err)
	}
}
