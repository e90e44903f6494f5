package worker

import (
	"errors"

	"github.com/workpulling/workpulling/sidecar/health"
)

// checks are the answers to kubelet's probes.
func (s *sidecar) checks() health.Checks {
	return health.Checks{
		Startup: func() error {
			if !s.serving.Load() {
				return errors.New("not listening yet")
			}
			return nil
		},
		Readiness: s.ready,
	}
}

// ready: the app answers and the worker is not draining; being bound is no part of it, so that a restart of the producer does not turn a
// whole pool NotReady.
func (s *sidecar) ready() error {
	if status := s.worker.Status(); status.Draining || status.Cordoned {
		return errors.New("draining")
	}
	if err := s.app.ready(); err != nil {
		return err
	}
	return s.worker.RunningSetError()
}
