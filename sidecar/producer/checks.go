package producer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/sidecar/health"
)

// probeLimit bounds how long a probe waits for the controller.
const probeLimit = 5 * time.Second

// checks: ready means that the queue is loaded and jobs can be taken or are refused for a reason that a person chose. A member of a
// shared queue that stands by is ready when it can read the queue: then it knows whom to pass jobs on to, and could take over.
func (s *sidecar) checks() health.Checks {
	look := func() (endpoint.ProducerStats, error) {
		ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
		defer cancel()
		return s.member.stats(ctx)
	}
	return health.Checks{
		Startup: func() error {
			if !s.serving.Load() {
				return errors.New("not listening yet")
			}
			return nil
		},
		Readiness: func() error {
			stats, err := look()
			switch {
			case errors.Is(err, errStandby):
				return s.member.canTakeOver()
			case err != nil:
				return fmt.Errorf("the controller does not answer: %w", err)
			case stats.Failure != nil:
				return fmt.Errorf("reliable delivery failed at stage %s", stats.Failure.Stage)
			case stats.Phase != delivery.PhaseRunning && s.member.shared && stats.Epoch == 0 && stats.QueueAvailable:
				return s.member.canTakeOver() // as ready as the moment before, when it stood by
			case stats.Phase != delivery.PhaseRunning:
				return fmt.Errorf("the queue is being loaded: %s", orElse(stats.QueueMessage, "no error so far"))
			}
			return nil
		},
		Liveness: func() error {
			if _, err := look(); !errors.Is(err, errStandby) {
				return err
			}
			return nil
		},
	}
}

// canTakeOver says why this member, which has not loaded the queue, could not.
func (m *member) canTakeOver() error {
	if trouble := m.view.Load().trouble; trouble != "" {
		return fmt.Errorf("the queue cannot be read: %s", trouble)
	}
	return nil
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
