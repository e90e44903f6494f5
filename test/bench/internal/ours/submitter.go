package ours

import (
	"context"
	"errors"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// submitter hands jobs to a producer of this process.
type submitter struct{ producer *endpoint.Producer }

// Pace implements trial.Submitter.
func (submitter) Pace() trial.Pace { return (*program)(nil).Pace() }

// Close implements trial.Submitter.
func (submitter) Close() error { return nil }

// Submit implements trial.Submitter. Jobs that get no credit are submitted again, as the error says.
func (s submitter) Submit(ctx context.Context, jobs []trial.Job) error {
	entries := make([]endpoint.Submission, len(jobs))
	for i, j := range jobs {
		job := protocol.Job{MessageID: j.ID(), Payload: j.Payload}
		entries[i] = endpoint.Submission{Job: job, Digest: endpoint.Digest(job)}
	}
	for len(entries) > 0 {
		var again []endpoint.Submission
		for i, answer := range s.producer.SubmitBatch(ctx, entries) {
			switch _, broke := errors.AsType[*endpoint.NoCreditError](answer.Err); {
			case broke:
				again = append(again, entries[i])
			case answer.Err != nil:
				return answer.Err
			default:
				answer.Receipt.Acknowledge()
			}
		}
		entries = again
	}
	return nil
}
