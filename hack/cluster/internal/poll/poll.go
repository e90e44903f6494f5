// Package poll waits for a condition.
//
// Invariant: the last failure of the condition is never lost; it explains the time-out.
package poll

import (
	"context"
	"fmt"
	"time"
)

const interval = 100 * time.Millisecond

// Until calls the condition until it returns nil, the context ends, or the time is over.
func Until(ctx context.Context, limit time.Duration, what string, condition func(context.Context) error) error {
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-parent.Done():
			return fmt.Errorf("waiting for %s: %w (last: %v)", what, context.Cause(parent), err)
		case <-ctx.Done():
			if parent.Err() != nil {
				continue // both have ended, and the select may have met either
			}
			return fmt.Errorf("waiting for %s: not within %s: %w", what, limit, err)
		case <-time.After(interval):
		}
	}
}
