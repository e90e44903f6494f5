package podbuilder

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// ProducerDocument is what the producer of flow reads, and re-reads, but for what the operator adds: its own address and the failure that
// it knows of.
func ProducerDocument(flow *v1alpha1.WorkPullingFlow, intake runtimeconfig.Intake) runtimeconfig.Producer {
	spec := &flow.Spec
	allowed := slices.Clone(spec.AllowedServiceAccounts)
	slices.Sort(allowed)
	connection := spec.Queue.PostgreSQL.ConnectionSecretRef
	return runtimeconfig.Producer{
		Namespace: flow.Namespace, Flow: flow.Name, FlowUID: string(flow.UID),
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
		MaxWindow:              int(spec.MaxFlowControlWindow),
		Dispatch:               string(spec.Dispatch),
		RecoverNonce:           spec.RecoverNonce,
		TrustNamespace:         flow.TrustsNamespace(),
		AllowedServiceAccounts: allowed,
	}
}

// WorkerDocument is what the workers of pool read, and re-read. It names each flow's producer by its Service.
func WorkerDocument(pool *v1alpha1.WorkerPool) runtimeconfig.Worker {
	doc := runtimeconfig.Worker{
		Namespace: pool.Namespace, Pool: pool.Name, PoolUID: string(pool.UID),
		Window:            int(pool.Spec.FlowControlWindow),
		ResendIntervalMS:  int64(pool.Spec.ResendIntervalMilliseconds),
		Concurrency:       int(pool.Spec.Concurrency),
		DedupMaxProducers: int(ptr.Deref(pool.Spec.Dedup.MaxProducers, v1alpha1.DefaultMaxProducers)),
		DedupIdleSec:      int64(ptr.Deref(pool.Spec.Dedup.ProducerIdleSeconds, v1alpha1.DefaultProducerIdleSeconds)),
	}
	if http := pool.Spec.Handler.HTTP; http != nil {
		doc.HandlerPort, doc.HandlerPath, doc.HandlerTimeoutSec = http.Port, http.Path, int64(http.TimeoutSeconds)
	}
	if stream := pool.Spec.Handler.Stream; stream != nil {
		doc.Handler, doc.HandlerTimeoutSec = runtimeconfig.HandlerStream, int64(stream.TimeoutSeconds)
	}
	for _, flow := range slices.Sorted(slices.Values(pool.Spec.Flows)) {
		host := runtimeconfig.ProducerHost(flow, pool.Namespace)
		doc.Flows = append(doc.Flows, runtimeconfig.WorkerFlow{
			Name: flow, ProducerAddress: fmt.Sprintf("%s:%d", host, runtimeconfig.PortTransport), ProducerHost: host,
		})
	}
	doc.Flow, doc.ProducerAddress, doc.ProducerHost = doc.Flows[0].Name, doc.Flows[0].ProducerAddress, doc.Flows[0].ProducerHost
	return doc
}
