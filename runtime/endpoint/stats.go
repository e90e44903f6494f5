package endpoint

import (
	"context"
	"maps"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/protocol/wire"
	"github.com/workpulling/workpulling/runtime/transport"
)

// ProducerStats is a snapshot of a Producer.
type ProducerStats struct {
	delivery.Stats
	// Intake is what the flow does with new and stored jobs.
	Intake delivery.SetIntake
	// Failure is the terminal failure that this incarnation ended with, nil while it lives.
	Failure *delivery.Failed
	// SessionAge is the age of this Controller, OldestBacklogAge roughly how long the oldest job waits; 0 if none does.
	SessionAge, OldestBacklogAge time.Duration
	// QueueAvailable is false while the durable lane fails; QueueMessage says how.
	QueueAvailable bool
	QueueMessage   string
	// BacklogFull: no more jobs are taken until workers have demand or the backlog shrinks.
	BacklogFull bool
	// LostVolatile counts the jobs that a volatile queue forgot at earlier restarts.
	LostVolatile int64
	// QueueFormat is the version of the stored data's format, 0 where nothing is written.
	QueueFormat uint64
	// Orphans are jobs that were stored more than OrphanAge ago and that their producer never acknowledged, as last counted.
	Orphans int64
	// Failures counts terminal failures by stage since the process started.
	Failures map[delivery.Stage]uint64
	// Refused counts refused identities and connections by label since the process started.
	Refused map[transport.Label]uint64
}

// Stats returns a snapshot; ErrUnavailable after Run has ended.
func (p *Producer) Stats(ctx context.Context) (ProducerStats, error) {
	var stats ProducerStats
	if err := p.loop.call(ctx, func() { stats = p.snapshot() }); err != nil {
		return ProducerStats{}, err
	}
	stats.Refused = p.refused.Counts()
	stats.Orphans = max(0, p.orphans.Load())
	return stats, nil
}

func (p *Producer) snapshot() ProducerStats {
	if p.controller == nil {
		return ProducerStats{Stats: delivery.Stats{Phase: delivery.PhaseLoading}, Intake: p.intake, QueueAvailable: true}
	}
	now := p.options.Clock.Now()
	stats := ProducerStats{
		Stats: p.controller.Stats(), Intake: p.intake, Failure: p.failure, Failures: maps.Clone(p.failures), SessionAge: now.Sub(p.began),
		LostVolatile: p.lost, QueueFormat: p.format,
	}
	if p.failure != nil {
		stats.Phase = delivery.PhaseFailed
	}
	stats.OldestBacklogAge = p.ages.of(stats.OldestBacklogStoreSeq, now)
	stats.QueueAvailable = stats.QueueError == "" && !stats.LoadFailing
	stats.QueueMessage = stats.QueueError
	stats.BacklogFull = backlogFull(p.config, stats.Stats)
	return stats
}

// backlogFull says whether the bounds leave no room for another job (G-050). A bound of 0 is none where the other is set; without both
// only free demand makes room.
func backlogFull(config delivery.ControllerConfig, s delivery.Stats) bool {
	jobs, bytes := config.BacklogJobs, config.BacklogBytes
	if bytes > 0 && s.BacklogBytes >= bytes {
		return true
	}
	waiting := s.BacklogJobs + s.DelayedJobs
	return s.FreeDemand <= waiting && (jobs > 0 && waiting >= jobs || jobs == 0 && bytes == 0)
}

// invalidRefusal tells a producer endpoint that its submission broke a limit.
func invalidRefusal(m wire.Malformed) protocol.Refused {
	return protocol.Refused{
		Session: m.Submission.Session, Token: m.Submission.Token, MessageID: m.Submission.Job.MessageID,
		Code: protocol.RefusedInvalid, Reason: m.Err.Error(),
	}
}
