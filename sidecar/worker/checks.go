package worker

import (
	"errors"
	"fmt"

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
		// Ready = the app answers and the worker is not draining; being bound is no part of it, so that a restart of the producer
		// does not turn a whole pool NotReady.
		Readiness: func() error {
			status := s.worker.Status()
			switch {
			case status.Draining || status.Cordoned:
				return errors.New("draining")
			case !s.app.ready.Load():
				return fmt.Errorf("the app does not listen on %s", s.app.where().Address())
			}
			return s.worker.RunningSetError()
		},
	}
}
