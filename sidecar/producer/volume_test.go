package producer

import (
	"context"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/memory"
)

// busy is a back-end that has a slow operation under way: closing it takes until that ends.
type busy struct {
	queue.WorkQueue
	closing, end chan struct{}
}

func (b *busy) Close() error {
	close(b.closing)
	<-b.end
	return b.WorkQueue.Close()
}

// A connection string that changes while an operation hangs in the former database holds up nobody who goes to the new one.
func TestAFormerBackEndThatIsBusyHoldsUpNobody(t *testing.T) {
	former := &busy{closing: make(chan struct{}), end: make(chan struct{})}
	version := "1"
	v := &volume{version: func() string { return version }, open: func(context.Context, time.Duration) (queue.WorkQueue, error) {
		back, err := memory.New(memory.Options{})
		if version == "1" {
			former.WorkQueue = back
			return former, err
		}
		return back, err
	}}
	if _, err := v.opened(t.Context()); err != nil {
		t.Fatal(err)
	}
	version = "2"
	opened := make(chan error, 1)
	go func() {
		_, err := v.opened(t.Context())
		opened <- err
	}()
	<-former.closing
	looked := make(chan error, 1)
	go func() {
		_, _, err := v.Lookup(t.Context(), "a")
		looked <- err
	}()
	select {
	case err := <-looked:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a look-up waits for the former back-end")
	}
	close(former.end)
	if err := <-opened; err != nil {
		t.Error(err)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
}
