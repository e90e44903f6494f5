package builders

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
)

// FlowBuilder makes a WorkPullingFlow.
type FlowBuilder struct{ flow v1alpha1.WorkPullingFlow }

// MakeFlow starts a flow with every default set.
func MakeFlow(name, namespace string) *FlowBuilder {
	return &FlowBuilder{flow: v1alpha1.WorkPullingFlow{
		TypeMeta:   typeMeta(v1alpha1.KindWorkPullingFlow),
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1alpha1.WorkPullingFlowSpec{
			Producer: v1alpha1.ProducerSpec{
				Replicas:                  1,
				RetryIntervalMilliseconds: 500,
				DeliveryConfirmation:      v1alpha1.SwitchDisabled,
				StreamTimeoutSeconds:      60,
			},
			Queue: v1alpha1.QueueSpec{
				Type:                    v1alpha1.QueueLocal,
				Retry:                   v1alpha1.QueueRetrySpec{Attempts: 3, BackoffMilliseconds: 100},
				OperationTimeoutSeconds: 10,
			},
			Intake:                     v1alpha1.IntakeSpec{Authentication: v1alpha1.IntakeToken},
			Backlog:                    v1alpha1.BacklogSpec{MaxJobs: ptr.To[int64](1000000), MaxBytes: ptr.To[int64](1 << 30)},
			Payload:                    v1alpha1.PayloadSpec{MaxBytes: 1 << 20},
			DeduplicationWindowSeconds: 600,
			Redelivery: v1alpha1.RedeliverySpec{
				MaxAttempts: ptr.To[int32](20),
				Backoff:     v1alpha1.RedeliveryBackoff{InitialMilliseconds: 1000, MaxMilliseconds: 60000},
			},
			Dispatch:       v1alpha1.DispatchRoundRobin,
			Liveness:       v1alpha1.LivenessSpec{HeartbeatSeconds: 2, DeadlineSeconds: 10},
			Runtime:        v1alpha1.ProducerRuntimeSpec{Resources: defaultResources(), UpdatePolicy: v1alpha1.UpdateOnNextRollout},
			Suspend:        v1alpha1.SwitchDisabled,
			DeletionPolicy: v1alpha1.DeletionDrain,
		},
	}}
}

// UID sets the UID, which the API server sets otherwise.
func (b *FlowBuilder) UID(uid types.UID) *FlowBuilder {
	b.flow.UID = uid
	return b
}

// Generation sets metadata.generation, which the API server sets otherwise.
func (b *FlowBuilder) Generation(generation int64) *FlowBuilder {
	b.flow.Generation = generation
	return b
}

// Finalizers replaces the finalizers.
func (b *FlowBuilder) Finalizers(finalizers ...string) *FlowBuilder {
	b.flow.Finalizers = finalizers
	return b
}

// DeletedAt marks the flow as being deleted.
func (b *FlowBuilder) DeletedAt(at metav1.Time) *FlowBuilder {
	b.flow.DeletionTimestamp = &at
	return b
}

// Memory makes the queue volatile.
func (b *FlowBuilder) Memory() *FlowBuilder {
	b.flow.Spec.Queue.Type = v1alpha1.QueueMemory
	b.flow.Spec.Queue.Local = nil
	return b
}

// PostgreSQL makes the queue a shared one, with the connection string under the
// default key of a Secret.
func (b *FlowBuilder) PostgreSQL(secret string, replicas int32) *FlowBuilder {
	b.flow.Spec.Queue.Type, b.flow.Spec.Queue.Local = v1alpha1.QueuePostgreSQL, nil
	b.flow.Spec.Queue.PostgreSQL = v1alpha1.PostgreSQLQueueSpec{
		ConnectionSecretRef: v1alpha1.ConnectionSecretRef{Name: secret, Key: "dsn"},
	}
	b.flow.Spec.Producer.Replicas = replicas
	return b
}

// Volume sets the size and the StorageClass of a Local queue; an empty class is
// the default class.
func (b *FlowBuilder) Volume(size, storageClass string) *FlowBuilder {
	b.flow.Spec.Queue.Local = &v1alpha1.LocalQueueSpec{Size: resource.MustParse(size)}
	if storageClass != "" {
		b.flow.Spec.Queue.Local.StorageClassName = &storageClass
	}
	return b
}

// ProducerTemplate sets the pod of the producing app.
func (b *FlowBuilder) ProducerTemplate(template corev1.PodTemplateSpec) *FlowBuilder {
	b.flow.Spec.Producer.Template = &template
	return b
}

// MaxAttempts sets when a failing job becomes a dead letter; 0 is never.
func (b *FlowBuilder) MaxAttempts(attempts int32) *FlowBuilder {
	b.flow.Spec.Redelivery.MaxAttempts = &attempts
	return b
}

// Backoff sets the pause before a failed job runs again.
func (b *FlowBuilder) Backoff(initialMilliseconds, maxMilliseconds int32) *FlowBuilder {
	b.flow.Spec.Redelivery.Backoff = v1alpha1.RedeliveryBackoff{
		InitialMilliseconds: initialMilliseconds,
		MaxMilliseconds:     maxMilliseconds,
	}
	return b
}

// Liveness sets the heartbeat and the deadline of a silent worker.
func (b *FlowBuilder) Liveness(heartbeatSeconds, deadlineSeconds int32) *FlowBuilder {
	b.flow.Spec.Liveness = v1alpha1.LivenessSpec{HeartbeatSeconds: heartbeatSeconds, DeadlineSeconds: deadlineSeconds}
	return b
}

// TrustedNamespace lets pods of the namespace submit without a token.
func (b *FlowBuilder) TrustedNamespace() *FlowBuilder {
	b.flow.Spec.Intake.Authentication = v1alpha1.IntakeTrustedNamespace
	return b
}

// Suspended suspends the flow.
func (b *FlowBuilder) Suspended() *FlowBuilder {
	b.flow.Spec.Suspend = v1alpha1.SwitchEnabled
	return b
}

// DeletionPolicy sets what deletion does to unconfirmed jobs.
func (b *FlowBuilder) DeletionPolicy(policy v1alpha1.DeletionPolicy) *FlowBuilder {
	b.flow.Spec.DeletionPolicy = policy
	return b
}

// Obj is a copy of the flow as built so far.
func (b *FlowBuilder) Obj() *v1alpha1.WorkPullingFlow { return b.flow.DeepCopy() }
