package builders

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
)

// PoolBuilder makes a WorkerPool.
type PoolBuilder struct{ pool v1alpha1.WorkerPool }

// MakePool starts a pool of one worker for a flow, with every default set and one
// app container.
func MakePool(name, namespace, flow string) *PoolBuilder {
	return &PoolBuilder{pool: v1alpha1.WorkerPool{
		TypeMeta:   typeMeta(v1alpha1.KindWorkerPool),
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1alpha1.WorkerPoolSpec{
			Flows:                      []string{flow},
			Replicas:                   ptr.To[int32](1),
			Template:                   Template("example.test/app"),
			FlowControlWindow:          50,
			ResendIntervalMilliseconds: 2000,
			Concurrency:                1,
			Dedup: v1alpha1.DedupSpec{
				MaxProducers:        ptr.To[int32](v1alpha1.DefaultMaxProducers),
				ProducerIdleSeconds: ptr.To[int32](v1alpha1.DefaultProducerIdleSeconds),
			},
			Handler: v1alpha1.HandlerSpec{HTTP: &v1alpha1.HTTPHandlerSpec{Port: 8080, Path: "/", TimeoutSeconds: 60}},
			Drain:   v1alpha1.DrainSpec{TimeoutSeconds: 120},
			Update: v1alpha1.UpdateSpec{
				MaxSurge:       ptr.To(intstr.FromString("25%")),
				MaxUnavailable: ptr.To(intstr.FromString("25%")),
			},
			Paused:  v1alpha1.SwitchDisabled,
			Runtime: v1alpha1.WorkerRuntimeSpec{Resources: defaultResources(), UpdatePolicy: v1alpha1.UpdateOnNextRollout},
		},
	}}
}

// Template is a pod template with one container, named app.
func Template(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}},
	}
}

// UID sets the UID, which the API server sets otherwise.
func (b *PoolBuilder) UID(uid types.UID) *PoolBuilder {
	b.pool.UID = uid
	return b
}

// Generation sets metadata.generation, which the API server sets otherwise.
func (b *PoolBuilder) Generation(generation int64) *PoolBuilder {
	b.pool.Generation = generation
	return b
}

// Replicas sets the number of workers.
func (b *PoolBuilder) Replicas(replicas int32) *PoolBuilder {
	b.pool.Spec.Replicas = &replicas
	return b
}

// Image sets the image of the app container.
func (b *PoolBuilder) Image(image string) *PoolBuilder {
	b.pool.Spec.Template.Spec.Containers[0].Image = image
	return b
}

// Flows replaces the flow that MakePool was given.
func (b *PoolBuilder) Flows(names ...string) *PoolBuilder {
	b.pool.Spec.Flows = names
	return b
}

// Dedup bounds what is remembered about producers; 0 is no limit.
func (b *PoolBuilder) Dedup(maxProducers, producerIdleSeconds int32) *PoolBuilder {
	b.pool.Spec.Dedup = v1alpha1.DedupSpec{MaxProducers: &maxProducers, ProducerIdleSeconds: &producerIdleSeconds}
	return b
}

// Template sets the pod of a worker.
func (b *PoolBuilder) Template(template corev1.PodTemplateSpec) *PoolBuilder {
	b.pool.Spec.Template = template
	return b
}

// Concurrency sets how many jobs a worker runs at once.
func (b *PoolBuilder) Concurrency(jobs int32) *PoolBuilder {
	b.pool.Spec.Concurrency = jobs
	return b
}

// Handler sets where jobs are posted and how long one may take, in seconds.
func (b *PoolBuilder) Handler(port int32, path string, timeoutSeconds int32) *PoolBuilder {
	b.pool.Spec.Handler.HTTP = &v1alpha1.HTTPHandlerSpec{Port: port, Path: path, TimeoutSeconds: timeoutSeconds}
	return b
}

// Streams lets the app open streams instead; timeoutSeconds is how long one job may take.
func (b *PoolBuilder) Streams(timeoutSeconds int32) *PoolBuilder {
	b.pool.Spec.Handler = v1alpha1.HandlerSpec{Stream: &v1alpha1.StreamHandlerSpec{TimeoutSeconds: timeoutSeconds}}
	return b
}

// Obj is a copy of the pool as built so far.
func (b *PoolBuilder) Obj() *v1alpha1.WorkerPool { return b.pool.DeepCopy() }
