package v1alpha1

// Labels of the objects that the operator makes.
const (
	// LabelFlow is the name of the flow an object belongs to. A worker that pulls
	// from several flows has none of this name.
	LabelFlow = "workpulling.dev/flow"
	// LabelPullsFromPrefix, followed by the name of a flow, is the label of a worker
	// that pulls from that flow. A worker of several flows has one for each.
	LabelPullsFromPrefix = "workpulling.dev/flow."
	// LabelPool is the name of the pool a worker pod belongs to. It stays on the
	// pod for its whole life, so that logs and owners can always be found by it.
	LabelPool = "workpulling.dev/pool"
	// LabelPoolUID is the UID of the pool a worker pod counts for. It is the only
	// label in status.selector, and it is removed from a pod the moment the pod
	// starts to drain: an autoscaler must not average over a pod that is leaving.
	// A raised target that takes a draining pod back puts it on again.
	LabelPoolUID = "workpulling.dev/pool-uid"
	// LabelRole is what a pod does: producer or worker.
	LabelRole = "workpulling.dev/role"
	// LabelRevision is the hash of the part of the spec a pod was made from.
	LabelRevision = "workpulling.dev/revision"
)

// Values of the labels of the flows that a worker pulls from.
const (
	// PullsFrom is the only one.
	PullsFrom = "true"
)

// LabelPullsFrom is the label of a worker pod that pulls from a flow.
func LabelPullsFrom(flow string) string { return LabelPullsFromPrefix + flow }

// Values of the label role.
const (
	// RoleProducer marks a pod that takes jobs in for a flow. One of a flow's
	// producers owns the queue; with a PostgreSQL queue others may stand by.
	RoleProducer = "producer"
	// RoleWorker marks a pod of a pool.
	RoleWorker = "worker"
)

// Annotations of pods.
const (
	// AnnotationVictim asks for the removal of a worker: the next scale-down takes
	// the pods that carry it before any other that is busy. Its value is free text
	// for the reader. A person or a node autoscaler sets it.
	AnnotationVictim = "workpulling.dev/victim"
	// AnnotationConfiguration is the hash of the configuration that the operator
	// wrote last for a producer. It changes nothing by itself: a changed pod is
	// what makes kubelet refresh the pod's configuration at once.
	AnnotationConfiguration = "workpulling.dev/configuration"
	// AnnotationDraining marks a worker that the operator drains. Its value is the
	// reason, for the reader.
	AnnotationDraining = "workpulling.dev/draining"
	// AnnotationFlows is the list of the flows that a worker pulls from: their
	// names, sorted and separated by commas.
	AnnotationFlows = "workpulling.dev/flows"
	// AnnotationLease marks a worker whose sidecar keeps a Lease: only the process
	// that holds it may pull jobs. A worker without the annotation, of an earlier
	// version, is known by its token and its pod alone.
	AnnotationLease = "workpulling.dev/lease"
	// AnnotationRuntimeRevision is the hash of the sidecar's image and
	// configuration. It is apart from the label workpulling.dev/revision, because a
	// new sidecar is no change of the template (runtime.updatePolicy decides).
	AnnotationRuntimeRevision = "workpulling.dev/runtime-revision"
)

// Values of the annotation lease.
const (
	// LeaseRequired says that the Lease decides which process of the pod may pull.
	LeaseRequired = "Required"
)

// Annotations of flows, pools and the Secret of the certificate authority.
const (
	// AnnotationRenewBefore asks for new certificates: what was made before the
	// moment in its value, in the format of RFC 3339, is replaced, as soon as that
	// moment has come. On a flow or a pool it is about its serving certificate, on
	// the Secret of the operator's certificate authority about the authority
	// itself. A person sets it when a key has leaked.
	AnnotationRenewBefore = "workpulling.dev/renew-before"
)

// Annotations of a flow's Lease.
const (
	// AnnotationHalted is the failure for good of the producer that had the shared queue. No other takes the queue over until
	// spec.recoverNonce has another value than the one that the annotation names.
	AnnotationHalted = "workpulling.dev/halted"
)

// Finalizers. In a terminating namespace each is released without waiting.
const (
	// FinalizerFlow keeps a flow until its deletionPolicy is satisfied.
	FinalizerFlow = "workpulling.dev/flow"
	// FinalizerPool keeps a pool until its workers are drained.
	FinalizerPool = "workpulling.dev/pool"
)

const (
	// MaxNameLength is the longest name of a flow or a pool, in characters. It
	// leaves room for the suffixes of Services (63), StatefulSets (52) and pods.
	MaxNameLength = 40
	// DefaultVolumeSize is the size of the volume of a Local queue where the flow
	// has no queue.local.
	DefaultVolumeSize = "10Gi"
	// DefaultMaxProducers is how many producers a worker remembers where the pool
	// says nothing.
	DefaultMaxProducers = 1024
	// DefaultProducerIdleSeconds is how long a silent producer is remembered where
	// the pool says nothing.
	DefaultProducerIdleSeconds = 300
	// DrainGraceMarginSeconds is what the pod's grace period has beyond the drain
	// timeout: the time of the app to stop after its last job.
	DrainGraceMarginSeconds = 30
)
