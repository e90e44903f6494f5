package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkPullingFlow is one stream of jobs: a producer that stores jobs durably and
// hands each to exactly one worker of the pools that name this flow, at the pace
// the workers ask for. An accepted job is kept until a worker has confirmed it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=workpullingflows,singular=workpullingflow,shortName=wpf,categories=workpulling
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Backlog",type=integer,JSONPath=`.status.backlog`
// +kubebuilder:printcolumn:name="InFlight",type=integer,JSONPath=`.status.inFlight`
// +kubebuilder:printcolumn:name="Workers",type=integer,JSONPath=`.status.workers`
// +kubebuilder:printcolumn:name="DeadLetters",type=integer,JSONPath=`.status.deadLetters`
// +kubebuilder:printcolumn:name="Queue",type=string,priority=1,JSONPath=`.spec.queue.type`
// +kubebuilder:printcolumn:name="Epoch",type=integer,priority=1,JSONPath=`.status.queue.epoch`
// +kubebuilder:printcolumn:name="Active",type=string,priority=1,JSONPath=`.status.producer.activePod`
// +kubebuilder:printcolumn:name="Standbys",type=integer,priority=1,JSONPath=`.status.producer.readyStandbys`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40",message="metadata.name must be at most 40 characters: the names of Services and pods are built from it"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must start with a letter and hold only lower-case letters, digits and '-': it becomes the name of a Service"
type WorkPullingFlow struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired behaviour of the flow. An empty spec is a working flow:
	// a producer without an app, fed through the intake Service, with a Local queue.
	//
	// +optional
	// +kubebuilder:default={}
	Spec WorkPullingFlowSpec `json:"spec,omitzero"`

	// status is what the operator last observed of the flow.
	//
	// +optional
	Status WorkPullingFlowStatus `json:"status,omitzero"`
}

// WorkPullingFlowList is a list of flows.
//
// +kubebuilder:object:root=true
type WorkPullingFlowList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	//
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the flows of the list.
	Items []WorkPullingFlow `json:"items"`
}

// WorkPullingFlowSpec is the desired behaviour of a flow.
//
// +kubebuilder:validation:XValidation:rule="!has(self.backlog) || self.backlog.maxBytes == 0 || self.backlog.maxBytes >= self.payload.maxBytes",message="backlog.maxBytes must be at least payload.maxBytes, or the largest job could never be admitted"
// +kubebuilder:validation:XValidation:rule="!has(self.producer) || !has(self.producer.replicas) || self.producer.replicas == 1 || has(self.queue) && self.queue.type == 'PostgreSQL'",message="producer.replicas above 1 needs a queue that several pods can open: queue.type PostgreSQL"
type WorkPullingFlowSpec struct {
	// producer configures the pod that takes jobs in and hands them out.
	//
	// +optional
	// +kubebuilder:default={}
	Producer ProducerSpec `json:"producer,omitzero"`

	// queue is where accepted jobs are kept until they are confirmed.
	//
	// +optional
	// +kubebuilder:default={type: Local}
	Queue QueueSpec `json:"queue,omitzero"`

	// intake governs who may submit jobs over the network.
	//
	// +optional
	// +kubebuilder:default={authentication: Token}
	Intake IntakeSpec `json:"intake,omitzero"`

	// backlog bounds the jobs that are admitted while no worker has free demand.
	//
	// +optional
	// +kubebuilder:default={maxJobs: 1000000, maxBytes: 1073741824}
	Backlog BacklogSpec `json:"backlog,omitzero"`

	// payload bounds one job.
	//
	// +optional
	// +kubebuilder:default={maxBytes: 1048576}
	Payload PayloadSpec `json:"payload,omitzero"`

	// deduplicationWindowSeconds is how long a settled message id is remembered.
	// A job that is submitted again inside the window is answered as already
	// known and does not run again.
	//
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	DeduplicationWindowSeconds int32 `json:"deduplicationWindowSeconds,omitempty"`

	// redelivery governs jobs whose handler failed.
	//
	// +optional
	// +kubebuilder:default={}
	Redelivery RedeliverySpec `json:"redelivery,omitzero"`

	// dispatch is who of the workers with free demand gets the next job.
	// RoundRobin takes turns, LeastOutstanding takes the one with the fewest
	// unsettled jobs.
	//
	// +optional
	// +kubebuilder:default=RoundRobin
	Dispatch DispatchPolicy `json:"dispatch,omitempty"`

	// liveness governs how fast a silent worker is given up.
	//
	// +optional
	// +kubebuilder:default={heartbeatSeconds: 2, deadlineSeconds: 10}
	Liveness LivenessSpec `json:"liveness,omitzero"`

	// maxFlowControlWindow caps the flow control window of every pool of this
	// flow, in jobs. Absent means no cap.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxFlowControlWindow int32 `json:"maxFlowControlWindow,omitempty"`

	// allowedServiceAccounts are the names of the ServiceAccounts, in the
	// namespace of the flow, that a worker of this flow may run as. An empty list
	// allows every ServiceAccount that a pool of this flow uses.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	AllowedServiceAccounts []string `json:"allowedServiceAccounts,omitempty"`

	// runtime configures the sidecar of the producer pod.
	//
	// +optional
	// +kubebuilder:default={}
	Runtime ProducerRuntimeSpec `json:"runtime,omitzero"`

	// suspend stops the flow without losing anything while it is Enabled: new jobs
	// are refused, stored ones stay stored, running ones finish. The pod stays.
	//
	// +optional
	// +kubebuilder:default=Disabled
	Suspend Switch `json:"suspend,omitempty"`

	// deletionPolicy is what deleting the flow does to jobs that are not
	// confirmed yet. Drain takes no more jobs and waits until all are settled,
	// Refuse keeps the flow until its queue is empty while it goes on working,
	// Discard drops them.
	//
	// +optional
	// +kubebuilder:default=Drain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// recoverNonce starts the flow anew after a terminal failure: change it when
	// the cause is removed. A restart of the pod does not.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	RecoverNonce int64 `json:"recoverNonce,omitempty"`
}

// DispatchPolicy is who of the workers with free demand gets the next job.
//
// +kubebuilder:validation:Enum=RoundRobin;LeastOutstanding
type DispatchPolicy string

const (
	// DispatchRoundRobin takes turns in the order of registration.
	DispatchRoundRobin DispatchPolicy = "RoundRobin"
	// DispatchLeastOutstanding takes the worker with the fewest unsettled jobs.
	DispatchLeastOutstanding DispatchPolicy = "LeastOutstanding"
)

// ProducerRuntimeSpec configures the runtime in the producer pod.
type ProducerRuntimeSpec struct {
	// resources are the compute resources of the runtime. A change reaches the
	// running producer as updatePolicy says.
	//
	// +optional
	// +kubebuilder:default={requests: {cpu: "50m", memory: "64Mi"}, limits: {memory: "512Mi"}}
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// updatePolicy decides when the running producer gets new resources, or the
	// new version of the runtime after an upgrade of the operator. OnNextRollout
	// waits for the next change of producer.template; a pod that is replaced for
	// another reason keeps the old ones. Rolling replaces the pod at once. Manual
	// waits until the pod is replaced for any reason, such as a person deleting it.
	//
	// +optional
	// +kubebuilder:default=OnNextRollout
	// +kubebuilder:validation:Enum=OnNextRollout;Rolling;Manual
	UpdatePolicy UpdatePolicy `json:"updatePolicy,omitempty"`
}

// DeletionPolicy is what deleting a flow does to unconfirmed jobs.
//
// +kubebuilder:validation:Enum=Drain;Refuse;Discard
type DeletionPolicy string

const (
	// DeletionDrain takes no new jobs and waits until the stored ones are settled.
	DeletionDrain DeletionPolicy = "Drain"
	// DeletionRefuse goes on working and is deleted when its queue is empty.
	DeletionRefuse DeletionPolicy = "Refuse"
	// DeletionDiscard drops what is not confirmed.
	DeletionDiscard DeletionPolicy = "Discard"
)

// ProducerSpec configures the producer pods.
type ProducerSpec struct {
	// replicas is the number of producer pods. One owns the queue, the others stand
	// by: they pass jobs on to it, and one takes over when it is gone. More than 1
	// needs a PostgreSQL queue.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	Replicas int32 `json:"replicas,omitempty"`

	// template is the pod of the app that submits jobs; the runtime is added as a
	// sidecar. Without a template the pod is the runtime alone and jobs come in
	// through the intake Service.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="size(self.spec.containers) > 0",message="spec.containers must hold at least one container"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec.restartPolicy) || self.spec.restartPolicy == 'Always'",message="spec.restartPolicy must be Always: the pod runs until the operator replaces it"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec.activeDeadlineSeconds)",message="spec.activeDeadlineSeconds must be left out: the pod is long-lived"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec.hostNetwork) || !self.spec.hostNetwork",message="spec.hostNetwork must be left out: the ports of the sidecar belong to the pod"
	// +kubebuilder:validation:XValidation:rule="(!has(self.spec.shareProcessNamespace) || !self.spec.shareProcessNamespace) && (!has(self.spec.hostPID) || !self.spec.hostPID)",message="spec.shareProcessNamespace and spec.hostPID must be left out: they would show the sidecar's token and keys to the app"
	// +kubebuilder:validation:XValidation:rule="self.spec.containers.all(c, !has(c.ports) || c.ports.all(p, !(p.containerPort in [9440, 9441, 9443, 9444]))) && (!has(self.spec.initContainers) || self.spec.initContainers.all(c, !has(c.ports) || c.ports.all(p, !(p.containerPort in [9440, 9441, 9443, 9444]))))",message="ports 9440, 9441, 9443 and 9444 belong to the sidecar"
	// +kubebuilder:validation:XValidation:rule="self.spec.containers.all(c, !c.name.startsWith('workpulling-')) && (!has(self.spec.initContainers) || self.spec.initContainers.all(c, !c.name.startsWith('workpulling-')))",message="container names that start with workpulling- are reserved"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec.volumes) || self.spec.volumes.all(v, !v.name.startsWith('workpulling-'))",message="volume names that start with workpulling- are reserved"
	// +kubebuilder:validation:XValidation:rule="!has(self.metadata) || ((!has(self.metadata.labels) || self.metadata.labels.all(k, !k.startsWith('workpulling.dev/'))) && (!has(self.metadata.annotations) || self.metadata.annotations.all(k, !k.startsWith('workpulling.dev/'))))",message="labels and annotations that start with workpulling.dev/ are reserved"
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`

	// retryIntervalMilliseconds is how often the runtime repeats a message that an
	// app on the gRPC producer stream has not answered. The HTTP intake has no use
	// for it.
	//
	// +optional
	// +kubebuilder:default=500
	// +kubebuilder:validation:Minimum=50
	// +kubebuilder:validation:Maximum=60000
	RetryIntervalMilliseconds int32 `json:"retryIntervalMilliseconds,omitempty"`

	// deliveryConfirmation tells an app on the gRPC producer stream about each job
	// that has been confirmed durably, while it is Enabled. A submission over HTTP
	// asks with ?wait=confirmed, whatever this says.
	//
	// +optional
	// +kubebuilder:default=Disabled
	DeliveryConfirmation Switch `json:"deliveryConfirmation,omitempty"`

	// streamTimeoutSeconds is how long a gRPC producer stream may stay silent
	// before it is closed and the credit granted on it ends. It does not concern
	// the HTTP intake.
	//
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	StreamTimeoutSeconds int32 `json:"streamTimeoutSeconds,omitempty"`
}

// QueueSpec is where accepted jobs are kept.
//
// +kubebuilder:validation:XValidation:rule="self.type == oldSelf.type",message="queue.type cannot change: the jobs of the old queue would be left behind; make a new flow"
// +kubebuilder:validation:XValidation:rule="self.type == 'Local' || !has(self.local)",message="queue.local may be set only where queue.type is Local"
// +kubebuilder:validation:XValidation:rule="(self.type == 'PostgreSQL') == has(self.postgreSQL)",message="queue.postgreSQL must be set where queue.type is PostgreSQL, and nowhere else"
// +kubebuilder:validation:XValidation:rule="quantity(has(self.local) ? string(self.local.size) : '10Gi').compareTo(quantity(has(oldSelf.local) ? string(oldSelf.local.size) : '10Gi')) >= 0",message="queue.local.size cannot shrink"
// +kubebuilder:validation:XValidation:rule="(has(self.local) && has(self.local.storageClassName) ? [self.local.storageClassName] : []) == (has(oldSelf.local) && has(oldSelf.local.storageClassName) ? [oldSelf.local.storageClassName] : [])",message="queue.local.storageClassName cannot change: a volume stays in its class"
type QueueSpec struct {
	// type is the kind of queue. Local keeps jobs on a volume of the producer, and
	// a job is accepted only when it has been synced to it. Memory keeps them in
	// the memory of the producer: a restart loses what is not confirmed, counts it
	// and shows it. PostgreSQL keeps them in a database of yours, which several
	// producer pods can open.
	//
	// +optional
	// +kubebuilder:default=Local
	Type QueueType `json:"type,omitempty"`

	// local configures the volume of a Local queue. Absent means a volume of 10Gi
	// in the default StorageClass.
	//
	// +optional
	Local *LocalQueueSpec `json:"local,omitempty"`

	// postgreSQL says where the database of a PostgreSQL queue is.
	//
	// +optional
	PostgreSQL PostgreSQLQueueSpec `json:"postgreSQL,omitzero"`

	// retry governs operations of the queue that fail for a passing reason.
	//
	// +optional
	// +kubebuilder:default={}
	Retry QueueRetrySpec `json:"retry,omitzero"`

	// operationTimeoutSeconds is the deadline of one operation of the queue.
	//
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=300
	OperationTimeoutSeconds int32 `json:"operationTimeoutSeconds,omitempty"`
}

// QueueType is a kind of queue.
//
// +kubebuilder:validation:Enum=Local;Memory;PostgreSQL
type QueueType string

const (
	// QueueLocal keeps jobs on a volume of the producer pod, synced before accept.
	QueueLocal QueueType = "Local"
	// QueueMemory keeps jobs in the memory of the producer: volatile.
	QueueMemory QueueType = "Memory"
	// QueuePostgreSQL keeps jobs in a PostgreSQL database: shared.
	QueuePostgreSQL QueueType = "PostgreSQL"
)

// PostgreSQLQueueSpec says where a PostgreSQL database is.
type PostgreSQLQueueSpec struct {
	// connectionSecretRef names the Secret with the connection string. All of its
	// keys are files in /etc/workpulling/queue of the runtime, so that the string
	// may name a certificate there.
	//
	// +required
	ConnectionSecretRef ConnectionSecretRef `json:"connectionSecretRef,omitzero"`
}

// ConnectionSecretRef names a key of a Secret in the namespace of the flow.
type ConnectionSecretRef struct {
	// name is the name of the Secret.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// key is the key whose value is the connection string, a URL such as
	// postgres://user:password@host/database, or key=value pairs.
	//
	// +optional
	// +kubebuilder:default=dsn
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}

// IntakeSpec governs who may submit jobs over the network.
type IntakeSpec struct {
	// authentication is how a caller of the intake proves who it is. Token asks
	// each for a ServiceAccount token of audience workpulling.dev, with rights on
	// workpullingflows/jobs. TrustedNamespace also lets live pods of the namespace
	// of the flow submit jobs and look them up without a token, known by the
	// address that they call from; pods with hostNetwork are not among them. Who
	// can send from the address of such a pod can submit then. A caller that
	// presents a token is judged by it all the same, dead letters and orphans
	// always need one, and so does a worker. Takes effect without a restart.
	//
	// +optional
	// +kubebuilder:default=Token
	Authentication IntakeAuthentication `json:"authentication,omitempty"`
}

// IntakeAuthentication is how a caller of the intake proves who it is.
//
// +kubebuilder:validation:Enum=Token;TrustedNamespace
type IntakeAuthentication string

const (
	// IntakeToken asks every caller for a token.
	IntakeToken IntakeAuthentication = "Token"
	// IntakeTrustedNamespace lets live pods of the namespace submit without one.
	IntakeTrustedNamespace IntakeAuthentication = "TrustedNamespace"
)

// LocalQueueSpec configures the volume of a Local queue.
type LocalQueueSpec struct {
	// size is the size of the volume, at least 64Mi. It may grow where the
	// StorageClass allows expansion, and never shrinks.
	//
	// +optional
	// +kubebuilder:default="10Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Mi')) >= 0",message="size must be at least 64Mi"
	Size resource.Quantity `json:"size,omitzero"`

	// storageClassName is the StorageClass of the volume. Absent means the default
	// class of the cluster; the empty string means a volume without a class, made
	// by hand.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$`
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// QueueRetrySpec governs failing operations of a queue.
type QueueRetrySpec struct {
	// attempts is how often an operation is tried in all before the queue is
	// reloaded under a new epoch.
	//
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20
	Attempts int32 `json:"attempts,omitempty"`

	// backoffMilliseconds is the pause before the second try; it doubles with each
	// further one.
	//
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60000
	BackoffMilliseconds int32 `json:"backoffMilliseconds,omitempty"`
}

// BacklogSpec bounds jobs that no worker holds yet.
//
// +kubebuilder:validation:XValidation:rule="(self.maxJobs == 0) == (self.maxBytes == 0)",message="maxJobs and maxBytes must both be 0 (a job is taken only for free demand) or both be greater"
type BacklogSpec struct {
	// maxJobs is how many jobs may wait. A submitter beyond it is asked to come
	// back later. 0, together with maxBytes 0, takes a job only when a worker has
	// free demand for it.
	//
	// +optional
	// +kubebuilder:default=1000000
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000000
	MaxJobs *int64 `json:"maxJobs,omitempty"`

	// maxBytes is how many bytes of payload may wait, by default 1 GiB. Size the
	// volume of a Local queue, or the memory limit of the runtime for a Memory
	// queue, well above it.
	//
	// +optional
	// +kubebuilder:default=1073741824
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=17592186044416
	MaxBytes *int64 `json:"maxBytes,omitempty"`
}

// PayloadSpec bounds one job.
type PayloadSpec struct {
	// maxBytes is the largest payload of a job, by default 1 MiB. A larger one is
	// refused when it is submitted; pass a reference to it instead.
	//
	// +optional
	// +kubebuilder:default=1048576
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16777216
	MaxBytes int64 `json:"maxBytes,omitempty"`
}

// RedeliverySpec governs jobs whose handler failed.
type RedeliverySpec struct {
	// maxAttempts is how often a handler may fail one job before the job becomes a
	// dead letter. 0 never gives up.
	//
	// +optional
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	MaxAttempts *int32 `json:"maxAttempts,omitempty"`

	// backoff is the pause before a failed job runs again.
	//
	// +optional
	// +kubebuilder:default={initialMilliseconds: 1000, maxMilliseconds: 60000}
	Backoff RedeliveryBackoff `json:"backoff,omitzero"`
}

// RedeliveryBackoff is an exponential pause with jitter.
//
// +kubebuilder:validation:XValidation:rule="self.initialMilliseconds <= self.maxMilliseconds",message="initialMilliseconds must not be greater than maxMilliseconds"
type RedeliveryBackoff struct {
	// initialMilliseconds is the pause after the first failure; it doubles with
	// each further one.
	//
	// +optional
	// +kubebuilder:default=1000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600000
	InitialMilliseconds int32 `json:"initialMilliseconds,omitempty"`

	// maxMilliseconds is the longest pause.
	//
	// +optional
	// +kubebuilder:default=60000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400000
	MaxMilliseconds int32 `json:"maxMilliseconds,omitempty"`
}

// LivenessSpec governs how fast a silent worker is given up.
//
// +kubebuilder:validation:XValidation:rule="self.deadlineSeconds >= 4 * self.heartbeatSeconds",message="deadlineSeconds must be at least four times heartbeatSeconds, or one lost heartbeat could cost a healthy worker"
type LivenessSpec struct {
	// heartbeatSeconds is the interval of heartbeats, both ways.
	//
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60
	HeartbeatSeconds int32 `json:"heartbeatSeconds,omitempty"`

	// deadlineSeconds is the silence after which a worker is lost and its
	// unconfirmed jobs go to others.
	//
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=4
	// +kubebuilder:validation:Maximum=600
	DeadlineSeconds int32 `json:"deadlineSeconds,omitempty"`
}

// WorkPullingFlowStatus is what the operator last observed of a flow. The counts
// come from the producer's reports, at most a few times a minute; metrics have
// the live numbers.
type WorkPullingFlowStatus struct {
	// conditions are Ready, ProducerAvailable, QueueAvailable, WorkersBound,
	// DeliveryFailed and HasDeadLetters.
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

	// backlog is the number of stored jobs that no worker holds. Absent means not
	// reported.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Backlog *int64 `json:"backlog,omitempty"`

	// inFlight is the number of jobs that workers hold and have not settled.
	// Absent means not reported.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	InFlight *int64 `json:"inFlight,omitempty"`

	// workers is the number of workers that are bound to the producer. Absent means
	// not reported.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Workers *int32 `json:"workers,omitempty"`

	// deadLetters is the number of jobs that exhausted their attempts or were
	// rejected, and wait for a person. Absent means not reported.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	DeadLetters *int64 `json:"deadLetters,omitempty"`

	// lostJobs is the number of jobs, dead letters included, that a Memory queue
	// lost with its producer's restarts and replacements, by its last reports. It
	// never falls. A Local queue loses none. Absent means not reported yet.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	LostJobs *int64 `json:"lostJobs,omitempty"`

	// memory is what lostJobs is computed from. Absent for a queue of another type.
	//
	// +optional
	Memory *MemoryStatus `json:"memory,omitempty"`

	// orphanedJobs is the number of jobs that were stored over an hour ago and
	// whose producer never acknowledged that. Absent means not reported.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	OrphanedJobs *int64 `json:"orphanedJobs,omitempty"`

	// lastFailure is the latest failure that DeliveryFailed told of. It stays
	// after a recovery.
	//
	// +optional
	LastFailure *FailureStatus `json:"lastFailure,omitempty"`

	// intakeURL is where jobs are submitted from inside the cluster.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	IntakeURL string `json:"intakeURL,omitempty"`

	// queue describes the data of the queue. Absent means not reported.
	//
	// +optional
	Queue *QueueStatus `json:"queue,omitempty"`

	// producer says which producer pods do what, where the queue is shared.
	//
	// +optional
	Producer *ProducerStatus `json:"producer,omitempty"`
}

// ProducerStatus describes the producer pods of a shared queue.
type ProducerStatus struct {
	// activePod is the name of the pod that owns the queue. Absent means that none
	// is known to.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ActivePod string `json:"activePod,omitempty"`

	// readyStandbys is the number of pods that could take over now.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyStandbys *int32 `json:"readyStandbys,omitempty"`

	// fencedEpochs are the epochs of the latest writers that another producer has
	// fenced and of which an Event has told, the lowest first.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Minimum=1
	FencedEpochs []int64 `json:"fencedEpochs,omitempty"`
}

// FailureStatus is a failure of delivery.
type FailureStatus struct {
	// reason is the reason that DeliveryFailed had.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// stage is Load, Store, Accept, Confirm or Protocol.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	Stage string `json:"stage,omitempty"`

	// message is for people.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// time is when it was seen first.
	//
	// +optional
	Time metav1.Time `json:"time,omitzero"`

	// recoverNonce is set where the failure was terminal: the flow starts anew
	// when spec.recoverNonce differs from it. It is removed then.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	RecoverNonce *int64 `json:"recoverNonce,omitempty"`
}

// QueueStatus describes the data of a queue.
type QueueStatus struct {
	// formatVersion is the version of the format of the stored data.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	FormatVersion int32 `json:"formatVersion,omitempty"`

	// epoch is the generation of the writer that owns the queue. Each load of the
	// queue issues the next one.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	Epoch int64 `json:"epoch,omitempty"`
}

// MemoryStatus is the account of a Memory queue.
type MemoryStatus struct {
	// podUID is the UID of the producer pod that reported last.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	PodUID string `json:"podUID,omitempty"`

	// heldJobs is how many jobs, dead letters included, the pod held.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	HeldJobs *int64 `json:"heldJobs,omitempty"`

	// lostJobs is how many jobs restarts inside the pod lost.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	LostJobs *int64 `json:"lostJobs,omitempty"`
}
