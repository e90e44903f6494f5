package filelock

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/workpulling/workpulling/hack/cluster/internal/progress"
)

func TestAcquire(t *testing.T) {
	path, silent := filepath.Join(t.TempDir(), "below", "lock"), progress.New(nil, nil)
	release, err := Acquire(t.Context(), path, "it", silent)
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Acquire(ended, path, "it", silent); !errors.Is(err, context.Canceled) {
		t.Errorf("a second holder: %v", err)
	}
	second := make(chan error, 1)
	go func() {
		release, err := Acquire(t.Context(), path, "it", silent)
		if err == nil {
			release()
		}
		second <- err
	}()
	select {
	case err := <-second:
		t.Fatalf("did not wait: %v", err)
	default:
	}
	release()
	if err := <-second; err != nil {
		t.Errorf("after the release: %v", err)
	}
}
