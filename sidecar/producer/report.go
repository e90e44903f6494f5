package producer

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/go-logr/logr"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/transport"
)

// Pace of the reports: at most one a second, on change, and one in a while so that the operator knows that it is not stale.
const (
	reportEvery      = time.Second
	reportAtLeast    = 5 * time.Second
	reportSendLimit  = 10 * time.Second
	reportRetryFirst = time.Second
	reportRetryLast  = 10 * time.Second
)

// reporter pushes the flow's figures to the operator. Nothing waits for it.
type reporter struct {
	log      logr.Logger
	document func() (runtimeconfig.Producer, string)
	member   *member
	caFile   string
	token    string
}

// run reports until ctx ends.
func (r *reporter) run(ctx context.Context) {
	wait := reportRetryFirst
	complained := false
	for ctx.Err() == nil {
		began := time.Now() //nolint:forbidigo // pacing of reports
		err := r.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > reportRetryLast { //nolint:forbidigo // pacing of reports
			wait, complained = reportRetryFirst, false
		}
		if err != nil && !complained {
			complained = true
			r.log.Info("The operator gets no reports; jobs are not affected", "cause", err.Error())
		}
		pause := time.Duration(float64(wait) * (0.75 + rand.Float64()/2))
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		wait = min(2*wait, reportRetryLast)
	}
}

// session reports over one stream until that breaks, or the operator's address changes.
func (r *reporter) session(ctx context.Context) error {
	document, _ := r.document()
	address, host := document.OperatorAddress, document.OperatorHost
	if address == "" {
		return nil
	}
	peer := transport.Peer{Address: address, TLS: transport.ClientTLS(transport.OperatorCA(r.caFile), host), TokenFile: r.token}
	conn, err := peer.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := protocolv1.NewFlowStatsCollectorClient(conn).Report(ctx)
	if err != nil {
		return err
	}
	broken := make(chan error, 1)
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				broken <- err
				return
			}
		}
	}()
	return r.push(ctx, stream, broken, cancel, address)
}

func (r *reporter) push(ctx context.Context, stream protocolv1.FlowStatsCollector_ReportClient, broken <-chan error, cancel func(), address string) error {
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	var last *protocolv1.FlowStats
	var sent time.Time
	for {
		document, hash := r.document()
		if document.OperatorAddress != address {
			return nil
		}
		if next, err := r.member.report(ctx, document, hash); err == nil {
			now := time.Now() //nolint:forbidigo // pacing of reports
			if now.Sub(sent) >= reportAtLeast || !proto.Equal(last, next) {
				limit := time.AfterFunc(reportSendLimit, cancel)
				err := stream.Send(next)
				limit.Stop()
				if err != nil {
					return err
				}
				last, sent = next, now
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-broken:
			return err
		case <-ticker.C:
		}
	}
}

// report says what this member does for its flow.
func (m *member) report(ctx context.Context, document runtimeconfig.Producer, hash string) (*protocolv1.FlowStats, error) {
	stats, err := m.stats(ctx)
	var out *protocolv1.FlowStats
	switch {
	case errors.Is(err, errStandby) && m.view.Load().unasked:
		return nil, errUnasked
	case errors.Is(err, errStandby):
		out = standbyReport(document, hash, m.self.PodUID, *m.view.Load())
	case err != nil:
		return nil, err
	default:
		out = report(document, hash, m.self.PodUID, stats)
	}
	if out.QueueAvailable {
		out.QueueMessage = m.queue.caution()
	}
	if !out.QueueAvailable && m.queue.locked() {
		out.QueueCode = runtimeconfig.QueueLocked
	}
	out.PodName, out.FencedTotal, out.Shared = m.self.Pod, m.fenced.Load(), m.shared
	out.Fenced = m.turns.list()
	if m.verification != nil {
		v := m.verification()
		out.Verification, out.VerificationMessage = string(v.Way), v.Message
	}
	return out, nil
}

// standbyReport is that of a member without the seat: it knows who has it, and whether it could take over.
func standbyReport(document runtimeconfig.Producer, hash, podUID string, v view) *protocolv1.FlowStats {
	out := &protocolv1.FlowStats{
		Namespace: document.Namespace, Flow: document.Flow, FlowUid: document.FlowUID, PodUid: podUID,
		Epoch: uint64(v.epoch), State: stateStandby, QueueAvailable: v.trouble == "", QueueMessage: v.trouble, ConfigHash: hash,
	}
	if errors.Is(v.cause, errNoConnection) {
		out.QueueCode = runtimeconfig.QueueConnectionMissing
	}
	switch {
	case errors.Is(v.cause, queue.ErrUnsupportedFormat):
		out.FailureStage, out.FailureCode, out.FailureReason = string(delivery.StageLoad), runtimeconfig.FailureFormat, v.trouble
	case !v.troubledSince.IsZero() && time.Since(v.troubledSince) >= loadAlarm: //nolint:forbidigo // for a report
		out.FailureStage, out.FailureReason = string(delivery.StageLoad), v.trouble
	}
	return out
}

// loadAlarm is how long the queue may be unreadable before that is called a failed load.
const loadAlarm = time.Minute

// mostQuarantined bounds how many quarantined workers a report names.
const mostQuarantined = 100

// report is one report. Ages are left at whole seconds.
func report(document runtimeconfig.Producer, hash, podUID string, s endpoint.ProducerStats) *protocolv1.FlowStats {
	out := &protocolv1.FlowStats{
		Namespace: document.Namespace, Flow: document.Flow, FlowUid: document.FlowUID, PodUid: podUID,
		Session: s.Session, Epoch: uint64(s.Epoch), State: stateOf(s),
		BacklogJobs: int64(s.BacklogJobs + s.DelayedJobs), BacklogBytes: s.BacklogBytes, InFlight: int64(s.InFlight),
		DeadLetters: s.DeadLetters, OldestBacklogAgeSeconds: int64(s.OldestBacklogAge / time.Second), FreeDemand: int64(s.FreeDemand),
		AcceptedTotal: s.Accepted, ConfirmedTotal: s.Confirmed, RedeliveredTotal: s.Redelivered, LostVolatileTotal: uint64(max(s.LostVolatile, 0)),
		QueueAvailable: s.QueueAvailable, QueueMessage: s.QueueMessage, CreditWithheld: s.CreditWithheld, BacklogFull: s.BacklogFull,
		QueueFormat: s.QueueFormat, ConfigHash: hash, RecoverNonce: document.RecoverNonce, OrphanedJobs: s.Orphans,
	}
	if s.QueueFull && s.Phase == delivery.PhaseRunning {
		out.QueueCode = runtimeconfig.QueueFull
	}
	out.FailureStage, out.FailureCode, out.FailureReason = failureOf(s)
	for _, b := range s.Bindings {
		out.Workers = append(out.Workers, &protocolv1.BoundWorker{
			PodUid: b.Worker.PodUID, PodName: b.Worker.PodName, Pool: b.Worker.Pool,
			InFlight: int32(b.InFlight), Started: int32(b.Started), Draining: b.Draining,
			Revision: b.Worker.Revision,
		})
	}
	for _, r := range s.Paused {
		out.PausedRevisions = append(out.PausedRevisions, &protocolv1.PausedRevision{
			Pool: r.Pool, Revision: r.Revision, Failures: int64(r.Failures), Reason: r.Reason,
		})
	}
	for _, q := range s.Quarantined[:min(len(s.Quarantined), mostQuarantined)] {
		out.QuarantinedWorkers = append(out.QuarantinedWorkers, &protocolv1.QuarantinedWorker{
			PodUid: q.Worker.PodUID, PodName: q.Worker.PodName, Pool: q.Worker.Pool, Flapping: q.Flapping,
		})
	}
	return out
}

// failureOf is the end of the delivery, or else what keeps the queue from it for a minute already and may yet heal.
func failureOf(s endpoint.ProducerStats) (stage, code, reason string) {
	switch {
	case s.Failure != nil:
		if s.Failure.Cause != nil {
			reason = s.Failure.Cause.Error()
		}
		return string(s.Failure.Stage), codeOf(*s.Failure), reason
	case s.LoadFailing:
		return string(delivery.StageLoad), "", s.QueueError
	case s.IsolatedConfirms > 0:
		return string(delivery.StageConfirm), "", strings.TrimSuffix("confirmations cannot be written: "+s.QueueError, ": ")
	}
	return "", "", ""
}

// codeOf names the cause of a failure for the operator.
func codeOf(failure delivery.Failed) string {
	switch {
	case errors.Is(failure.Cause, queue.ErrUnsupportedFormat):
		return runtimeconfig.FailureFormat
	case failure.Stage == delivery.StageProtocol:
		return runtimeconfig.FailureProtocol
	case errors.Is(failure.Cause, queue.ErrFenced):
		return runtimeconfig.FailureFenced
	case errors.Is(failure.Cause, queue.ErrConflict):
		return runtimeconfig.FailureConflict
	}
	return ""
}

// Values of FlowStats.state.
const (
	stateLoading   = "Loading"
	stateRunning   = "Running"
	stateSuspended = "Suspended"
	stateDraining  = "Draining"
	stateFailed    = "Failed"
	stateStandby   = runtimeconfig.StateStandby
)

func stateOf(s endpoint.ProducerStats) string {
	switch {
	case s.Failure != nil || s.Phase == delivery.PhaseFailed:
		return stateFailed
	case s.Phase == delivery.PhaseLoading:
		return stateLoading
	case s.Intake.Open:
		return stateRunning
	case s.Intake.Dispatch:
		return stateDraining
	default:
		return stateSuspended
	}
}
