package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/workpulling/workpulling/internal/certs"
)

const (
	// startPatience is how long an operator that starts waits for the API server. It is less than its startup probe allows, so that the
	// log says why it ended.
	startPatience = 50 * time.Second
	// tryLimit is how long one request may hang.
	tryLimit = 15 * time.Second
)

// startBackoff are the pauses between tries.
var startBackoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 10, Cap: 5 * time.Second}

// reach makes the first requests to the API server, and repeats them while it does not answer: it may be slow to start itself, or refuse
// us until it has seen our roles. What no try mends is returned at once.
func reach(ctx context.Context, log logr.Logger, request func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	var last error
	err := startBackoff.DelayFunc().Until(limited, true, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, tryLimit)
		defer cancel()
		err := request(ctx)
		if errors.Is(err, certs.ErrDamaged) {
			return false, err
		}
		if err != nil && last == nil {
			log.Info("Waiting for the API server", "cause", err.Error())
		}
		last = err
		return err == nil, nil
	})
	if last != nil && limited.Err() != nil {
		return fmt.Errorf("waiting for the API server: %w", last)
	}
	return err
}
