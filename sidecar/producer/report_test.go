package producer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/fencing"
	"github.com/workpulling/workpulling/runtime/queue"
)

// The operator tells failures apart by their code, whatever their text says.
func TestReportNamesTheFailure(t *testing.T) {
	for name, tc := range map[string]struct {
		stage delivery.Stage
		cause error
		want  string
	}{
		"fenced":           {delivery.StageStore, fmt.Errorf("storing: %w", queue.ErrFenced), runtimeconfig.FailureFenced},
		"conflict":         {delivery.StageAccept, fmt.Errorf("accepting: %w", queue.ErrConflict), runtimeconfig.FailureConflict},
		"newer format":     {delivery.StageLoad, fmt.Errorf("opening the queue: %w", queue.ErrUnsupportedFormat), runtimeconfig.FailureFormat},
		"corrupt row":      {delivery.StageProtocol, fmt.Errorf("%w: stored job 7 is not readable", queue.ErrConflict), runtimeconfig.FailureProtocol},
		"words of a cause": {delivery.StageConfirm, errors.New("the disk is fenced off after a conflict"), ""},
		"no cause":         {delivery.StageConfirm, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			stats := endpoint.ProducerStats{Failure: &delivery.Failed{Stage: tc.stage, Cause: tc.cause}}
			got := report(runtimeconfig.Producer{}, "", "pod", stats)
			if got.FailureStage != string(tc.stage) || got.FailureCode != tc.want {
				t.Errorf("stage %q, code %q; want %q, %q", got.FailureStage, got.FailureCode, tc.stage, tc.want)
			}
		})
	}
}

func TestReportTellsOfWhatMayHeal(t *testing.T) {
	for name, tc := range map[string]struct {
		stats             endpoint.ProducerStats
		stage, wantReason string
	}{
		"it delivers": {},
		"loading fails": {
			stats: endpoint.ProducerStats{Stats: delivery.Stats{LoadFailing: true, QueueError: "no such volume"}},
			stage: "Load", wantReason: "no such volume",
		},
		"a confirmation cannot be written": {
			stats: endpoint.ProducerStats{Stats: delivery.Stats{IsolatedConfirms: 2, QueueError: "input/output error"}},
			stage: "Confirm", wantReason: "confirmations cannot be written: input/output error",
		},
		"and now the others are": {
			stats: endpoint.ProducerStats{Stats: delivery.Stats{IsolatedConfirms: 2}},
			stage: "Confirm", wantReason: "confirmations cannot be written",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := report(runtimeconfig.Producer{}, "", "pod", tc.stats)
			if got.FailureStage != tc.stage || got.FailureCode != "" || got.FailureReason != tc.wantReason {
				t.Errorf("stage %q, code %q, reason %q; want %q and %q", got.FailureStage, got.FailureCode, got.FailureReason, tc.stage, tc.wantReason)
			}
		})
	}
}

// What is not known yet is not told: it would be an alarm at each start.
func TestAStandbyIsSilentBeforeItHasAskedTheQueue(t *testing.T) {
	q := &volume{open: func(context.Context, time.Duration) (queue.WorkQueue, error) {
		return nil, errors.New("password authentication failed")
	}}
	m := &member{log: logr.Discard(), shared: true, queue: q}
	m.init(fencing.CandidateConfig{})
	if told, err := m.report(t.Context(), runtimeconfig.Producer{}, ""); err == nil {
		t.Fatalf("it told %v", told)
	}
	m.readOwner(t.Context())
	told, err := m.report(t.Context(), runtimeconfig.Producer{}, "")
	if err != nil || told.GetQueueAvailable() || !strings.Contains(told.GetQueueMessage(), "password authentication failed") {
		t.Errorf("it told %v, error %v", told, err)
	}
}
