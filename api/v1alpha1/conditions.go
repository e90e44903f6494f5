package v1alpha1

// The reference docs/reference/conditions.md is generated from the constants of
// this file: one table for each block, one row for each constant.

// Condition types of a flow
const (
	// ConditionReady is True when the object does its work. For a flow: jobs are
	// taken in, kept and handed out. For a pool: as many workers as asked for are
	// ready. Its reason is that of the first other condition that is in the way.
	ConditionReady = "Ready"
	// ConditionProducerAvailable is True when the producer pod runs and reports to
	// the operator.
	ConditionProducerAvailable = "ProducerAvailable"
	// ConditionQueueAvailable is True when the queue is loaded and takes jobs.
	ConditionQueueAvailable = "QueueAvailable"
	// ConditionWorkersBound is True when at least one worker is bound to the flow.
	ConditionWorkersBound = "WorkersBound"
	// ConditionDeliveryFailed is True when the flow has stopped delivering, or has
	// a job that cannot be settled, and a person has to look. Its reason names the
	// stage of the failure.
	ConditionDeliveryFailed = "DeliveryFailed"
	// ConditionTokensVerified is True when the producer can tell who presents a
	// token. Its reason says how. While it is False nobody new can bind or submit;
	// workers that are bound go on.
	ConditionTokensVerified = "TokensVerified"
	// ConditionIntakeAuthenticated is True when every caller of the intake presents
	// a token, and False while pods of the namespace may submit without one, which
	// spec.intake.authentication decides. False is no fault: Ready does not follow.
	ConditionIntakeAuthenticated = "IntakeAuthenticated"
	// ConditionHasDeadLetters is True when jobs wait for a person to re-drive or
	// drop them.
	ConditionHasDeadLetters = "HasDeadLetters"
)

// Condition types of a pool (besides Ready)
const (
	// ConditionFlowAccepted is True when every flow of the pool exists and takes its
	// workers. Its reason is that of the flow with the worst one, in the order
	// missing, not allowed, being deleted, suspended, capped; its message tells of
	// each such flow. Where it is False, the workers pull from the other flows.
	ConditionFlowAccepted = "FlowAccepted"
	// ConditionProgressing is True while workers are made, replaced or removed, and
	// False when the pool is at rest or cannot go on.
	ConditionProgressing = "Progressing"
	// ConditionScalingActive mirrors the autoscaler that targets the pool.
	ConditionScalingActive = "ScalingActive"
	// ConditionDrained is True when no worker is draining, and False while at least
	// one finishes its jobs before it is deleted.
	ConditionDrained = "Drained"
)

// Reasons of Ready
const (
	// ReasonServing: the flow takes jobs in and hands them out.
	ReasonServing = "Serving"
	// ReasonWorkersReady: as many workers as asked for are ready.
	ReasonWorkersReady = "WorkersReady"
	// ReasonWorkersFlapping: the processes of workers die again and again, so they
	// are kept away from jobs for up to five minutes at a time. Look at the logs of
	// the pods that the message names.
	ReasonWorkersFlapping = "WorkersFlapping"
	// ReasonScaledToZero: the pool has no workers because replicas is 0.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonWorkersUnready: fewer workers are ready than asked for, and no pod
	// shows a problem yet.
	ReasonWorkersUnready = "WorkersUnready"
	// ReasonSuspended: spec.suspend is Enabled. Stored jobs are kept; set it to
	// Disabled to go on.
	ReasonSuspended = "Suspended"
	// ReasonDeleting: the object is being deleted; the message says what it waits
	// for.
	ReasonDeleting = "Deleting"
	// ReasonDeletionRefused: the flow is being deleted with deletionPolicy Refuse
	// and its queue still holds jobs. It goes on working until they are settled.
	ReasonDeletionRefused = "DeletionRefused"
	// ReasonNetworkPolicyRefused: the operator runs with --network-policies, and
	// the API server refuses the NetworkPolicy. No pod is made without it; those
	// that run go on. The message is the API server's.
	ReasonNetworkPolicyRefused = "NetworkPolicyRefused"
	// ReasonReconcileFailed: the operator could not read or write an object it
	// needs. The message holds the error; the operator tries again.
	ReasonReconcileFailed = "ReconcileFailed"
)

// Reasons of problems with pods (ProducerAvailable of a flow, Ready and Progressing of a pool)
const (
	// ReasonImagePullFailed: an image of the pod cannot be pulled. Check its name,
	// its tag and the pull secret.
	ReasonImagePullFailed = "ImagePullFailed"
	// ReasonQuotaExceeded: a ResourceQuota refused the pod. Raise the quota or lower
	// the requests; the operator tries again.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonUnschedulable: no node has room for the pod or satisfies its
	// constraints. The message is the scheduler's.
	ReasonUnschedulable = "Unschedulable"
	// ReasonTemplateInvalid: the API server refused a pod made from the template,
	// by validation, Pod Security or a policy, or a preStop hook names a port that
	// its container does not have. The message says what; edit the template.
	ReasonTemplateInvalid = "TemplateInvalid"
	// ReasonServiceAccountNotFound: the ServiceAccount the template names does not
	// exist in the namespace. Create it or correct the name.
	ReasonServiceAccountNotFound = "ServiceAccountNotFound"
	// ReasonPodConfigInvalid: a container cannot be started, for example because a
	// Secret or ConfigMap it names does not exist.
	ReasonPodConfigInvalid = "PodConfigInvalid"
	// ReasonPodsFailing: a container ends again and again. Look at its logs; the
	// message names pod, container and exit code.
	ReasonPodsFailing = "PodsFailing"
	// ReasonHandlerNotListening: the app does not answer on handler.http.port, or
	// has opened no stream where handler.stream is set. No job is handed to it
	// until it does.
	ReasonHandlerNotListening = "HandlerNotListening"
	// ReasonPodStarting: the pod is being created or is not ready yet, without a
	// sign of a problem.
	ReasonPodStarting = "PodStarting"
	// ReasonCertificatePending: the certificate of the flow or pool is not there
	// yet, or not valid any more; no pod is made before it is. The message says
	// what the operator waits for.
	ReasonCertificatePending = "CertificatePending"
)

// Reasons of ProducerAvailable
const (
	// ReasonProducerReady: the producer pod is ready and reports. A message tells
	// that it runs with an older runtime.
	ReasonProducerReady = "ProducerReady"
	// ReasonProducerSilent: the producer does not report to the operator. Delivery
	// may go on; counts in the status are unknown.
	ReasonProducerSilent = "ProducerSilent"
	// ReasonNoActiveProducer: producers stand by and none of them owns the shared
	// queue. QueueAvailable says whether they can reach it.
	ReasonNoActiveProducer = "NoActiveProducer"
	// ReasonNameConflict: an object of the name that the operator needs exists and
	// belongs to something else. Rename it or make the flow under another name.
	ReasonNameConflict = "NameConflict"
)

// Reasons of QueueAvailable
const (
	// ReasonQueueReady: the queue is loaded and takes jobs.
	ReasonQueueReady = "QueueReady"
	// ReasonBacklogFull: the queue works, and the backlog is at its bound, so
	// submitters are asked to come back later. Add workers or raise spec.backlog.
	ReasonBacklogFull = "BacklogFull"
	// ReasonQueueLoading: the producer is loading the queue.
	ReasonQueueLoading = "QueueLoading"
	// ReasonConnectionSecretMissing: the Secret that queue.postgreSQL names does not
	// exist or lacks the key. Create it; the producer notices within a minute or
	// two.
	ReasonConnectionSecretMissing = "ConnectionSecretMissing"
	// ReasonVolumePending: the volume of the queue is not bound. Check the
	// StorageClass and its provisioner; the message holds the cause.
	ReasonVolumePending = "VolumePending"
	// ReasonVolumeMissing: the volume claim of the queue was deleted or is being
	// deleted. The operator does not replace it on its own, because an empty queue
	// would hide the loss: restore the claim, or delete the flow.
	ReasonVolumeMissing = "VolumeMissing"
	// ReasonVolumeNodeLost: the node that holds the volume of the queue is gone or
	// unreachable. Bring the node back, or delete its Node object when it is gone
	// for good and restore the volume elsewhere.
	ReasonVolumeNodeLost = "VolumeNodeLost"
	// ReasonVolumeResizing: the volume is growing to the size asked for.
	ReasonVolumeResizing = "VolumeResizing"
	// ReasonVolumeResizeRefused: the StorageClass does not allow the volume to
	// grow. Set queue.local.size back or use a class that allows expansion in a
	// new flow.
	ReasonVolumeResizeRefused = "VolumeResizeRefused"
	// ReasonQueueFull: the queue has no room for new jobs, because its volume or
	// its database is full or read-only. They are refused with 503 and
	// Retry-After, while stored ones are worked off, which makes room. Raise
	// queue.local.size where the class can grow, add workers, or look after the
	// database; the flow goes on by itself.
	ReasonQueueFull = "QueueFull"
	// ReasonQueueLocked: another process holds the lock of the volume, and the
	// producer waits until that process ends; it goes on by itself then. The message
	// names the process where it is known: as a rule the producer before it, on a
	// node that is cut off or does not answer. Bring that node back or shut it down.
	// Never remove the file of the lock, which would let two writers in.
	ReasonQueueLocked = "QueueLocked"
	// ReasonStoreUnavailable: operations of the queue fail or time out. Nothing is
	// accepted until they work again.
	ReasonStoreUnavailable = "StoreUnavailable"
)

// Reasons of TokensVerified
const (
	// ReasonVerifiedOffline: tokens are verified with the public keys of the
	// cluster, also while the API server is away. A message tells that the keys
	// could not be read again, and until when they count.
	ReasonVerifiedOffline = "VerifiedOffline"
	// ReasonVerifiedByTokenReview: the API server does not give its keys away, so it
	// reviews each token, and nobody new is let in while it is away. Bind the
	// ClusterRole system:service-account-issuer-discovery to the group
	// system:serviceaccounts to change that.
	ReasonVerifiedByTokenReview = "VerifiedByTokenReview"
	// ReasonTokensUnverifiable: the API server neither gives its keys away nor
	// reviews tokens for the producer. Grant one of the two.
	ReasonTokensUnverifiable = "TokensUnverifiable"
	// ReasonVerificationUnknown: the producer has not reported how it verifies
	// tokens, or is of a version that does not.
	ReasonVerificationUnknown = "VerificationUnknown"
)

// Reasons of IntakeAuthenticated
const (
	// ReasonTokens: every caller of the intake presents a ServiceAccount token.
	ReasonTokens = "Tokens"
	// ReasonTrustedNamespace: live pods of the namespace submit jobs and look them
	// up without a token, known by their address. A message tells that a producer
	// has not taken a change of spec.intake.authentication yet.
	ReasonTrustedNamespace = "TrustedNamespace"
	// ReasonAuthenticationUnknown: no producer has reported yet how callers of the
	// intake are known.
	ReasonAuthenticationUnknown = "AuthenticationUnknown"
)

// Reasons of WorkersBound
const (
	// ReasonWorkersBound: at least one worker is bound.
	ReasonWorkersBound = "WorkersBound"
	// ReasonNoPool: no WorkerPool in the namespace names this flow.
	ReasonNoPool = "NoPool"
	// ReasonPoolsAtZero: every pool of this flow has replicas 0.
	ReasonPoolsAtZero = "PoolsAtZero"
	// ReasonWorkersStarting: workers exist and none is bound yet.
	ReasonWorkersStarting = "WorkersStarting"
	// ReasonRevisionPaused: every job of a revision of a pool fails, so its workers
	// get one job at a time, to try, until one succeeds. Repair the handler, or
	// go back to the template before. Also a reason of Ready and Progressing of
	// the pool.
	ReasonRevisionPaused = "RevisionPaused"
)

// Reasons of WorkersBound and of FlowAccepted
const (
	// ReasonServiceAccountNotAllowed: workers run as a ServiceAccount that
	// spec.allowedServiceAccounts of a flow does not name, so they cannot bind to
	// it. A pool makes no workers where none of its flows allows them. Add the
	// account there or change the template of the pool.
	ReasonServiceAccountNotAllowed = "ServiceAccountNotAllowed"
)

// Reasons of DeliveryFailed
const (
	// ReasonDelivering: nothing has failed.
	ReasonDelivering = "Delivering"
	// ReasonLoadFailed: the queue could not be loaded for a minute. The producer
	// goes on trying, and the condition clears itself.
	ReasonLoadFailed = "LoadFailed"
	// ReasonStoreFenced: a store was refused because a newer writer owns the queue.
	ReasonStoreFenced = "StoreFenced"
	// ReasonStoreConflict: a store contradicts what the queue holds.
	ReasonStoreConflict = "StoreConflict"
	// ReasonAcceptFenced: an accept was refused because a newer writer owns the
	// queue.
	ReasonAcceptFenced = "AcceptFenced"
	// ReasonAcceptConflict: an accept contradicts what the queue holds.
	ReasonAcceptConflict = "AcceptConflict"
	// ReasonConfirmFailed: a confirmation could not be written for a minute. The
	// job is set apart, the others go on, and the producer goes on trying.
	ReasonConfirmFailed = "ConfirmFailed"
	// ReasonConfirmFenced: a confirmation was refused because a newer writer owns
	// the queue.
	ReasonConfirmFenced = "ConfirmFenced"
	// ReasonConfirmConflict: a confirmation contradicts what the queue holds.
	ReasonConfirmConflict = "ConfirmConflict"
	// ReasonProtocolViolation: something that no retry can heal, for example a
	// corrupt row or an exhausted sequence.
	ReasonProtocolViolation = "ProtocolViolation"
	// ReasonQueueFormatUnsupported: the data of the queue was written in a format
	// this version cannot read. Go back to the version that wrote it.
	ReasonQueueFormatUnsupported = "QueueFormatUnsupported"
)

// Reasons of HasDeadLetters
const (
	// ReasonNoDeadLetters: no job waits for a person.
	ReasonNoDeadLetters = "NoDeadLetters"
	// ReasonJobsDeadLettered: jobs exhausted their attempts or were rejected. List
	// them, then re-drive or drop each.
	ReasonJobsDeadLettered = "JobsDeadLettered"
)

// Reasons of FlowAccepted
const (
	// ReasonFlowFound: every flow exists and takes the workers of the pool.
	ReasonFlowFound = "FlowFound"
	// ReasonWindowCapped: a flow takes the workers, with a flow control window
	// capped by its maxFlowControlWindow.
	ReasonWindowCapped = "WindowCapped"
	// ReasonFlowSuspended: a flow exists and is suspended; the workers get no jobs
	// of it.
	ReasonFlowSuspended = "FlowSuspended"
	// ReasonFlowNotFound: a flow that the pool names is not in the namespace. The
	// pool makes workers as soon as one of its flows is there, and none before that
	// (then it is also the reason of Progressing). Create the flow or correct
	// spec.flows.
	ReasonFlowNotFound = "FlowNotFound"
	// ReasonFlowDeleting: a flow is being deleted; the workers finish its jobs.
	ReasonFlowDeleting = "FlowDeleting"
)

// Reasons of Progressing
const (
	// ReasonStable: the pool has the workers asked for, of the newest revision. A
	// message tells of those that run with an older runtime.
	ReasonStable = "Stable"
	// ReasonScalingUp: workers are being added.
	ReasonScalingUp = "ScalingUp"
	// ReasonScalingDown: workers are being drained and removed.
	ReasonScalingDown = "ScalingDown"
	// ReasonReplacingWorkers: failed, evicted or lost workers are being replaced.
	ReasonReplacingWorkers = "ReplacingWorkers"
	// ReasonRollingOut: workers are being replaced by ones of the newest revision.
	ReasonRollingOut = "RollingOut"
	// ReasonPaused: spec.paused is Enabled and a rollout is held.
	ReasonPaused = "Paused"
)

// Reasons of ScalingActive
const (
	// ReasonNoAutoscaler: no HorizontalPodAutoscaler targets the pool.
	ReasonNoAutoscaler = "NoAutoscaler"
	// ReasonAutoscalerActive: an autoscaler targets the pool and can compute its
	// size.
	ReasonAutoscalerActive = "AutoscalerActive"
	// ReasonAutoscalerFailing: an autoscaler targets the pool and cannot compute its
	// size. The message is the autoscaler's; the size stays.
	ReasonAutoscalerFailing = "AutoscalerFailing"
	// ReasonAutoscalerAmbiguous: more than one autoscaler targets the pool. Delete
	// all but one.
	ReasonAutoscalerAmbiguous = "AutoscalerAmbiguous"
)

// Reasons of Drained
const (
	// ReasonNothingDraining: no worker is draining.
	ReasonNothingDraining = "NothingDraining"
	// ReasonWorkersDraining: workers finish the jobs they run.
	ReasonWorkersDraining = "WorkersDraining"
	// ReasonDrainTimedOut: a worker did not finish within drain.timeoutSeconds; it
	// is deleted and its jobs run again elsewhere.
	ReasonDrainTimedOut = "DrainTimedOut"
)
