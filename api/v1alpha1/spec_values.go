package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// VolumeSize is the size of the volume of a Local queue: local.size, or
// DefaultVolumeSize where local is absent.
func (q *QueueSpec) VolumeSize() resource.Quantity {
	if q.Local == nil || q.Local.Size.IsZero() {
		return resource.MustParse(DefaultVolumeSize)
	}
	return q.Local.Size
}

// HasVolume says whether the queue is on a volume of the producer.
func (q *QueueSpec) HasVolume() bool { return q.Type == QueueLocal || q.Type == "" }

// IsShared says whether several producers can open the queue.
func (q *QueueSpec) IsShared() bool { return q.Type == QueuePostgreSQL }

// IsSuspended says whether the flow is suspended.
func (f *WorkPullingFlow) IsSuspended() bool { return f.Spec.Suspend == SwitchEnabled }

// ProducerReplicas is the number of producer pods to keep: producer.replicas, or
// 1 where an object has not been through the API server yet.
func (f *WorkPullingFlow) ProducerReplicas() int32 { return max(f.Spec.Producer.Replicas, 1) }

// TrustsNamespace says whether pods of the flow's namespace may submit without a
// token.
func (f *WorkPullingFlow) TrustsNamespace() bool {
	return f.Spec.Intake.Authentication == IntakeTrustedNamespace
}

// IsPaused says whether rollouts of the pool are held.
func (p *WorkerPool) IsPaused() bool { return p.Spec.Paused == SwitchEnabled }

// DesiredReplicas is the number of workers to keep: spec.replicas, or 1 where an
// object has not been through the API server yet.
func (p *WorkerPool) DesiredReplicas() int32 {
	if p.Spec.Replicas == nil {
		return 1
	}
	return *p.Spec.Replicas
}
