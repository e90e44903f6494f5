package flow

import (
	"slices"

	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// document is what the producer reads, and re-reads.
func document(flow *v1alpha1.WorkPullingFlow, intake runtimeconfig.Intake, settings Settings) runtimeconfig.Producer {
	spec := &flow.Spec
	allowed := slices.Clone(spec.AllowedServiceAccounts)
	slices.Sort(allowed)
	connection := spec.Queue.PostgreSQL.ConnectionSecretRef
	return runtimeconfig.Producer{
		Namespace: flow.Namespace, Flow: flow.Name, FlowUID: string(flow.UID),
		OperatorAddress: settings.OperatorAddress, OperatorHost: settings.OperatorHost,
		Replicas: int(flow.ProducerReplicas()), Intake: intake,
		QueueType: string(spec.Queue.Type), QueueAttempts: int(spec.Queue.Retry.Attempts), QueueBackoffMS: int64(spec.Queue.Retry.BackoffMilliseconds),
		QueueSecret: connection.Name, QueueKey: connection.Key,
		OperationTimeoutSec:  int64(spec.Queue.OperationTimeoutSeconds),
		RetryIntervalMS:      int64(spec.Producer.RetryIntervalMilliseconds),
		DeliveryConfirmation: spec.Producer.DeliveryConfirmation == v1alpha1.SwitchEnabled,
		StreamTimeoutSec:     int64(spec.Producer.StreamTimeoutSeconds),
		BacklogMaxJobs:       ptr.Deref(spec.Backlog.MaxJobs, 0), BacklogMaxBytes: ptr.Deref(spec.Backlog.MaxBytes, 0),
		PayloadMaxBytes:  spec.Payload.MaxBytes,
		DeduplicationSec: int64(spec.DeduplicationWindowSeconds),
		MaxAttempts:      int(ptr.Deref(spec.Redelivery.MaxAttempts, 0)),
		BackoffInitialMS: int64(spec.Redelivery.Backoff.InitialMilliseconds), BackoffMaxMS: int64(spec.Redelivery.Backoff.MaxMilliseconds),
		HeartbeatSec: int64(spec.Liveness.HeartbeatSeconds), DeadlineSec: int64(spec.Liveness.DeadlineSeconds),
		MaxWindow:    int(spec.MaxFlowControlWindow),
		Dispatch:     string(spec.Dispatch),
		RecoverNonce: spec.RecoverNonce, Halted: halted(flow),
		AllowedServiceAccounts: allowed,
	}
}

// halted is the failure that keeps the queue from being loaded: the last one, where it was terminal and nobody has bumped the nonce since.
// The producer keeps that in mind by itself; this is for a pod that takes its place.
func halted(flow *v1alpha1.WorkPullingFlow) *runtimeconfig.Halt {
	last := flow.Status.LastFailure
	if last == nil || last.RecoverNonce == nil || *last.RecoverNonce != flow.Spec.RecoverNonce {
		return nil
	}
	return &runtimeconfig.Halt{Stage: last.Stage, Code: failureCode(last.Stage, last.Reason), Reason: last.Message}
}
