package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// WorkerPool is an elastic set of uniform workers that pull jobs from flows.
// Scaling down picks the least busy workers and lets each finish what it runs.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=workerpools,singular=workerpool,shortName=wpool,categories=workpulling
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Busy",type=integer,JSONPath=`.status.busy`
// +kubebuilder:printcolumn:name="Draining",type=integer,JSONPath=`.status.draining`
// +kubebuilder:printcolumn:name="Flows",type=string,priority=1,JSONPath=`.spec.flows`
// +kubebuilder:printcolumn:name="Updated",type=integer,priority=1,JSONPath=`.status.updated`
// +kubebuilder:printcolumn:name="Revision",type=string,priority=1,JSONPath=`.status.updateRevision`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40",message="metadata.name must be at most 40 characters: the names of pods are built from it"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must start with a letter and hold only lower-case letters, digits and '-': it becomes a part of host names"
type WorkerPool struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired behaviour of the pool.
	//
	// +required
	Spec WorkerPoolSpec `json:"spec,omitzero"`

	// status is what the operator last observed of the pool.
	//
	// +optional
	Status WorkerPoolStatus `json:"status,omitzero"`
}

// WorkerPoolList is a list of pools.
//
// +kubebuilder:object:root=true
type WorkerPoolList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	//
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the pools of the list.
	Items []WorkerPool `json:"items"`
}

// WorkerPoolSpec is the desired behaviour of a pool.
//
// +kubebuilder:validation:XValidation:rule="self.concurrency <= self.flowControlWindow",message="concurrency must not be greater than flowControlWindow: a worker cannot run more jobs than it may hold"
// +kubebuilder:validation:XValidation:rule="self.dedup.maxProducers == 0 || self.dedup.maxProducers >= size(self.flows)",message="dedup.maxProducers must be 0 or at least the number of flows: a worker talks to a producer of each"
// +kubebuilder:validation:XValidation:rule="self.dedup.producerIdleSeconds == 0 || self.dedup.producerIdleSeconds * 100 >= self.resendIntervalMilliseconds",message="dedup.producerIdleSeconds must be 0 or at least 10 times resendIntervalMilliseconds: a producer that still resends must not be forgotten"
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec.terminationGracePeriodSeconds) || self.template.spec.terminationGracePeriodSeconds >= self.drain.timeoutSeconds + 30",message="template.spec.terminationGracePeriodSeconds must be at least drain.timeoutSeconds + 30, or left out: the pool then sets it"
type WorkerPoolSpec struct {
	// flows are the names of the flows, in the namespace of the pool, that its
	// workers pull from. Jobs of all flows share the concurrency of a worker in
	// turn. A flow that is missing or suspended does not stop the others. Changing
	// the set replaces the workers by a rollout.
	//
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=40
	// +kubebuilder:validation:items:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Flows []string `json:"flows,omitempty"`

	// replicas is the number of workers to keep. It belongs to whoever writes the
	// scale subresource: a person, an HPA or KEDA.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`

	// template is the pod of a worker: the app that handles jobs. The runtime is
	// added as a sidecar. Changing it replaces the workers by a rollout.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="size(self.spec.containers) > 0",message="spec.containers must hold at least one container"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec.restartPolicy) || self.spec.restartPolicy == 'Always'",message="spec.restartPolicy must be Always: the pod runs until the operator replaces it"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec.activeDeadlineSeconds)",message="spec.activeDeadlineSeconds must be left out: the pod is long-lived"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec.hostNetwork) || !self.spec.hostNetwork",message="spec.hostNetwork must be left out: the ports of the sidecar belong to the pod"
	// +kubebuilder:validation:XValidation:rule="(!has(self.spec.shareProcessNamespace) || !self.spec.shareProcessNamespace) && (!has(self.spec.hostPID) || !self.spec.hostPID)",message="spec.shareProcessNamespace and spec.hostPID must be left out: they would show the sidecar's token and keys to the app"
	// +kubebuilder:validation:XValidation:rule="self.spec.containers.all(c, !has(c.ports) || c.ports.all(p, !(p.containerPort in [9440, 9441, 9443, 9444]))) && (!has(self.spec.initContainers) || self.spec.initContainers.all(c, !has(c.ports) || c.ports.all(p, !(p.containerPort in [9440, 9441, 9443, 9444]))))",message="ports 9440, 9441, 9443 and 9444 belong to the sidecar"
	// +kubebuilder:validation:XValidation:rule="self.spec.containers.all(c, !c.name.startsWith('workpulling-')) && (!has(self.spec.initContainers) || self.spec.initContainers.all(c, !c.name.startsWith('workpulling-')))",message="container names that start with workpulling- are reserved"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec.volumes) || self.spec.volumes.all(v, !v.name.startsWith('workpulling-'))",message="volume names that start with workpulling- are reserved"
	// +kubebuilder:validation:XValidation:rule="!has(self.metadata) || ((!has(self.metadata.labels) || self.metadata.labels.all(k, !k.startsWith('workpulling.dev/'))) && (!has(self.metadata.annotations) || self.metadata.annotations.all(k, !k.startsWith('workpulling.dev/'))))",message="labels and annotations that start with workpulling.dev/ are reserved"
	Template corev1.PodTemplateSpec `json:"template,omitzero"`

	// flowControlWindow is how many unsettled jobs a worker may hold of each flow.
	// The flow may cap it.
	//
	// +optional
	// +kubebuilder:default=50
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	FlowControlWindow int32 `json:"flowControlWindow,omitempty"`

	// resendIntervalMilliseconds is how often a worker repeats its demand when
	// nothing has arrived, which also asks for lost messages.
	//
	// +optional
	// +kubebuilder:default=2000
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=60000
	ResendIntervalMilliseconds int32 `json:"resendIntervalMilliseconds,omitempty"`

	// concurrency is how many jobs a worker runs at once, of all flows together.
	// 1 runs the jobs of a flow in order.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Concurrency int32 `json:"concurrency,omitempty"`

	// dedup bounds what a worker remembers about the producers of its flows.
	//
	// +optional
	// +kubebuilder:default={maxProducers: 1024, producerIdleSeconds: 300}
	Dedup DedupSpec `json:"dedup,omitzero"`

	// handler is how the sidecar hands a job to the app.
	//
	// +optional
	// +kubebuilder:default={http: {port: 8080}}
	Handler HandlerSpec `json:"handler,omitzero"`

	// drain governs how a worker stops.
	//
	// +optional
	// +kubebuilder:default={}
	Drain DrainSpec `json:"drain,omitzero"`

	// update is the pace of a rollout.
	//
	// +optional
	// +kubebuilder:default={maxSurge: "25%", maxUnavailable: "25%"}
	Update UpdateSpec `json:"update,omitzero"`

	// paused holds every rollout of the pool while it is Enabled. Scaling and the
	// replacement of lost workers go on.
	//
	// +optional
	// +kubebuilder:default=Disabled
	Paused Switch `json:"paused,omitempty"`

	// runtime configures the sidecar of the workers.
	//
	// +optional
	// +kubebuilder:default={}
	Runtime WorkerRuntimeSpec `json:"runtime,omitzero"`
}

// DedupSpec bounds what a worker remembers about producers: which of their jobs
// it has settled, and outcomes they have not taken over. Each queue that ever
// delivered to the worker is one producer. Forgetting one loses no job; at worst
// a job that had finished runs once more.
type DedupSpec struct {
	// maxProducers is how many producers a worker remembers. Past it, the one not
	// heard of for longest is forgotten. 0 means no limit.
	//
	// +optional
	// +kubebuilder:default=1024
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	MaxProducers *int32 `json:"maxProducers,omitempty"`

	// producerIdleSeconds is how long a producer is remembered that says nothing.
	// It is forgotten between one and two times later. Set it above the longest
	// outage of a producer whose finished jobs should not run again. 0 means for
	// ever.
	//
	// +optional
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31536000
	ProducerIdleSeconds *int32 `json:"producerIdleSeconds,omitempty"`
}

// WorkerRuntimeSpec configures the sidecar of the workers.
type WorkerRuntimeSpec struct {
	// resources are the compute resources of the sidecar. New workers have them;
	// running ones get them as updatePolicy says.
	//
	// +optional
	// +kubebuilder:default={requests: {cpu: "50m", memory: "64Mi"}, limits: {memory: "512Mi"}}
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// updatePolicy decides when running workers are replaced for new resources, or
	// for the new version of the sidecar after an upgrade of the operator.
	// OnNextRollout leaves them alone until template or flows change, Rolling
	// replaces them at once at the pace of update. A worker that is made for any
	// reason, be it to replace one that a person deleted, always has the newest.
	//
	// +optional
	// +kubebuilder:default=OnNextRollout
	// +kubebuilder:validation:Enum=OnNextRollout;Rolling
	UpdatePolicy UpdatePolicy `json:"updatePolicy,omitempty"`
}

// HandlerSpec is how the sidecar hands a job to the app: exactly one member.
// Changing it replaces no worker: jobs that run end the way they began.
//
// +kubebuilder:validation:XValidation:rule="has(self.http) != has(self.stream)",message="exactly one handler must be set: http or stream"
type HandlerSpec struct {
	// http posts each job to the app as a CloudEvent in binary mode. A 2xx answer
	// confirms the job.
	//
	// +optional
	HTTP *HTTPHandlerSpec `json:"http,omitempty"`

	// stream lets the app take jobs from gRPC streams that it opens, several jobs
	// a frame, on the Unix socket that the environment variable
	// WORKPULLING_SOCKET names.
	//
	// +optional
	Stream *StreamHandlerSpec `json:"stream,omitempty"`
}

// HTTPHandlerSpec is where and how jobs are posted to the app.
//
// +kubebuilder:validation:XValidation:rule="!(self.port in [9440, 9441, 9443, 9444])",message="ports 9440, 9441, 9443 and 9444 belong to the sidecar"
type HTTPHandlerSpec struct {
	// port is the port of the app, on the loopback address of the pod.
	//
	// +optional
	// +kubebuilder:default=8080
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// path is the path that jobs are posted to.
	//
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[^\s#]*$`
	Path string `json:"path,omitempty"`

	// timeoutSeconds is how long the app may take for one job. A job that takes
	// longer has failed and is tried again elsewhere.
	//
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// StreamHandlerSpec is how jobs go to an app that opens streams.
type StreamHandlerSpec struct {
	// timeoutSeconds is how long the app may take for one job. A job that takes
	// longer has failed and is tried again elsewhere.
	//
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// DrainSpec governs how a worker stops.
type DrainSpec struct {
	// timeoutSeconds is how long a draining worker may take to finish the jobs it
	// runs. Jobs it has not started go back at once. Set it above the longest job.
	//
	// +optional
	// +kubebuilder:default=120
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// UpdateSpec is the pace of a rollout, with the meaning of a Deployment's.
//
// +kubebuilder:validation:XValidation:rule="!(string(self.maxSurge) in ['0', '0%'] && string(self.maxUnavailable) in ['0', '0%'])",message="maxSurge and maxUnavailable must not both be 0: a rollout could never start"
type UpdateSpec struct {
	// maxSurge is how many workers may exist above replicas during a rollout, as a
	// number or as a percentage of replicas, rounded up.
	//
	// +optional
	// +kubebuilder:default="25%"
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : self >= 0",message="must be a whole number of at least 0 or a percentage from 0% to 100%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// maxUnavailable is how many workers may be missing from replicas during a
	// rollout, as a number or as a percentage of replicas, rounded down.
	//
	// +optional
	// +kubebuilder:default="25%"
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : self >= 0",message="must be a whole number of at least 0 or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// WorkerPoolStatus is what the operator last observed of a pool.
type WorkerPoolStatus struct {
	// conditions are Ready, FlowAccepted, Progressing, ScalingActive and Drained.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// observedGeneration is the generation of the spec this status is about.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// replicas is the number of live workers that are not draining. Autoscalers
	// read it.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// selector selects the workers that replicas counts, in the text form of a
	// label selector. It is set by the first write of the status and is unique in
	// the namespace.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Selector string `json:"selector,omitempty"`

	// ready is the number of workers, of those in replicas, whose app answers.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Ready *int32 `json:"ready,omitempty"`

	// updated is the number of workers, of those in replicas, of the newest
	// revision.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Updated *int32 `json:"updated,omitempty"`

	// registered is the number of workers that are bound to any of the flows.
	// Absent means not reported.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Registered *int32 `json:"registered,omitempty"`

	// busy is the number of workers that run at least one job. Absent means not
	// reported.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Busy *int32 `json:"busy,omitempty"`

	// draining is the number of workers that finish their jobs before they are
	// deleted.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Draining *int32 `json:"draining,omitempty"`

	// currentRevision is the revision that the last finished rollout ended on.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	CurrentRevision string `json:"currentRevision,omitempty"`

	// updateRevision is the revision that the spec asks for. It differs from
	// currentRevision while a rollout goes on.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	UpdateRevision string `json:"updateRevision,omitempty"`
}
