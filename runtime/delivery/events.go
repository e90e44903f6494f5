package delivery

import (
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// Now is monotonic time since an arbitrary start of this process.
type Now = time.Duration

// ConnID names one live stream of a peer, unique within the process and never reused.
type ConnID uint64

// OpID names one operation on the durable lane; a result with another OpID than the one in flight is dropped (G-143).
type OpID uint64

// Worker is what the host has verified about the peer of a stream before it lets a registration through: server-side
// facts only, never what the message claims.
type Worker struct {
	PodUID  string
	PodName string
	Pool    string
	// Revision is that of the pool's template the pod was made from; empty where nobody knows.
	Revision string
}

// --- events into the Controller -------------------------------------------------------------------------------------

// Event is the closed set of events that Controller.Step takes.
type Event interface{ controllerEvent() }

type (
	// Start begins the first load. Nothing else happens before it.
	Start struct{}
	// Tick lets due timers run; hosts send it at or after Controller.NextDeadline.
	Tick struct{}
	// Loaded answers LoadQueue.
	Loaded struct {
		Op    OpID
		Epoch queue.Epoch
		State queue.State
		Rows  []queue.Row
		Err   error
	}
	// Applied answers ApplyBatch.
	Applied struct {
		Op     OpID
		Result queue.Result
		Err    error
	}
	// JobsRead answers ReadJobs, in the order asked.
	JobsRead struct {
		Op   OpID
		Jobs []protocol.Job
		Err  error
	}
	// ProducerAttached opens an endpoint that wants at most MaxCredits open tokens (1 gives the seeds' one-at-a-time handshake).
	ProducerAttached struct {
		Conn       ConnID
		MaxCredits int
		// Notify asks for DeliveryConfirmed of every job of the flow.
		Notify bool
	}
	// ProducerDetached ends an endpoint and its grants.
	ProducerDetached struct{ Conn ConnID }
	// ProducerMessage is one message of an attached endpoint. Digest belongs to a Produced.
	ProducerMessage struct {
		Conn    ConnID
		Digest  queue.Digest
		Message protocol.FromProducer
	}
	// WorkerConnected introduces a verified stream.
	WorkerConnected struct {
		Conn   ConnID
		Worker Worker
	}
	// WorkerMessage is one message of a connected worker.
	WorkerMessage struct {
		Conn    ConnID
		Message protocol.FromWorker
	}
	// WorkerDisconnected is the fast path of worker loss: the stream ended. The binding survives until the liveness deadline, so
	// that a reconnecting worker keeps what it runs; unless Gone.
	WorkerDisconnected struct{ Conn ConnID }
	// WorkerGone is positive evidence that a pod's process is over: pod deleted, or another boot nonce holds its identity.
	WorkerGone struct {
		PodUID string
		// BootNonce is the incarnation that is over; empty means the pod with all of them.
		BootNonce string
		Reason    string
	}
	// Paused tells the machine that its host noticed a pause of the process longer than a heartbeat; every silence deadline
	// starts anew.
	Paused struct{ For time.Duration }
	// QueueAnswers tells that the host found the queue answering again after an outage: what waits to be tried again is tried now, for
	// an owner that goes on waiting looks to its standbys like one for which the queue does not work.
	QueueAnswers struct{}
	// QueueHasRoom tells that the queue would take new jobs again, for the Stats alone: jobs are tried all the time.
	QueueHasRoom struct{}
	// Reconfigure replaces the tunables without dropping bindings (B-264).
	Reconfigure struct{ Config ControllerConfig }
	// SetIntake opens or closes the door for new jobs (suspend, flow deletion). Dispatch of what is stored follows Dispatch.
	SetIntake struct{ Open, Dispatch bool }
	// Redriven tells that a dead letter went back among the stored jobs, by a write under Epoch. It says nothing new to a Controller
	// that has loaded the queue since. A host decides about a job only while the Controller does not hold it (Holds): before that,
	// the Controller may not know yet that its dead letter is written, and may write it again.
	Redriven struct {
		Epoch queue.Epoch
		Row   queue.Row
	}
	// Dropped tells that a dead letter was settled for good, by a write under Epoch. The same holds as for Redriven.
	Dropped struct {
		Epoch queue.Epoch
		Ref   queue.JobRef
	}
	// ClaimsResolved answers ResolveClaims with its first three fields. Ended are the jobs whose end is durable, Confirmed those of
	// them that were dead letters until now, Dropped those that a person dropped. What a host could not find out before it ended is in none.
	ClaimsResolved struct {
		Epoch                     queue.Epoch
		PodUID, BindingID         string
		Ended, Confirmed, Dropped []queue.JobRef
	}
)

func (Start) controllerEvent()              {}
func (Tick) controllerEvent()               {}
func (Loaded) controllerEvent()             {}
func (Applied) controllerEvent()            {}
func (JobsRead) controllerEvent()           {}
func (ProducerAttached) controllerEvent()   {}
func (ProducerDetached) controllerEvent()   {}
func (ProducerMessage) controllerEvent()    {}
func (WorkerConnected) controllerEvent()    {}
func (WorkerMessage) controllerEvent()      {}
func (WorkerDisconnected) controllerEvent() {}
func (WorkerGone) controllerEvent()         {}
func (Paused) controllerEvent()             {}
func (QueueAnswers) controllerEvent()       {}
func (QueueHasRoom) controllerEvent()       {}
func (Reconfigure) controllerEvent()        {}
func (SetIntake) controllerEvent()          {}
func (Redriven) controllerEvent()           {}
func (Dropped) controllerEvent()            {}
func (ClaimsResolved) controllerEvent()     {}

// --- actions of the Controller --------------------------------------------------------------------------------------

// Action is the closed set of actions that Controller.Step returns, to be executed in order.
type Action interface{ controllerAction() }

type (
	// LoadQueue asks the host to call WorkQueue.Load.
	LoadQueue struct{ Op OpID }
	// ApplyBatch asks the host to call WorkQueue.Apply; at most one is in flight.
	ApplyBatch struct {
		Op    OpID
		Epoch queue.Epoch
		Batch queue.Batch
	}
	// ReadJobs asks for payloads that are not in memory; at most one is in flight, besides an ApplyBatch.
	ReadJobs struct {
		Op   OpID
		Seqs []int64
	}
	// ToProducer sends a message to an endpoint; a failed send is message loss (G-078).
	ToProducer struct {
		Conn    ConnID
		Message protocol.ToProducer
	}
	// ToWorker sends a message to a worker's stream; a failed send is message loss.
	ToWorker struct {
		Conn    ConnID
		Message protocol.ToWorker
	}
	// CloseWorker ends a worker's stream after the messages before it.
	CloseWorker struct {
		Conn ConnID
		Code protocol.RefusalCode
	}
	// JobSettled tells the host how a job ended, after that is durable; for `?wait=confirmed` and metrics.
	JobSettled struct {
		Ref          queue.JobRef
		DeadLettered bool
		Reason       string
	}
	// ResolveClaims asks the host about jobs that a worker has finished and this Controller does not hold: they ended before. One that
	// lies among the dead letters under that very store sequence is to be confirmed, under the epoch given. The host
	// goes on until it knows. Without a PodUID the claim came before the end.
	ResolveClaims struct {
		Epoch             queue.Epoch
		PodUID, BindingID string
		Refs              []queue.JobRef
	}
	// Failed ends this incarnation: one per Controller (I-11). The Controller is inert afterwards.
	Failed struct {
		Stage Stage
		Cause error
	}
)

func (LoadQueue) controllerAction()     {}
func (ApplyBatch) controllerAction()    {}
func (ReadJobs) controllerAction()      {}
func (ToProducer) controllerAction()    {}
func (ToWorker) controllerAction()      {}
func (CloseWorker) controllerAction()   {}
func (JobSettled) controllerAction()    {}
func (ResolveClaims) controllerAction() {}
func (Failed) controllerAction()        {}

// Stage says which step of reliable delivery failed (G-161).
type Stage string

const (
	StageLoad     Stage = "Load"
	StageStore    Stage = "Store"
	StageAccept   Stage = "Accept"
	StageConfirm  Stage = "Confirm"
	StageProtocol Stage = "Protocol"
)

// --- events into the Consumer ---------------------------------------------------------------------------------------

// ConsumerEvent is the closed set of events that ConsumerGroup.Step takes. Connected, Disconnected and FromController concern one
// flow, all others the worker as a whole.
type ConsumerEvent interface{ consumerEvent() }

type (
	// ConsumerTick lets due timers run; hosts send it at or after ConsumerGroup.NextDeadline.
	ConsumerTick struct{}
	// Connected says that a stream to the producer of a flow is open. Flow is one of the names that the group was made with.
	Connected struct {
		Conn ConnID
		Flow string
	}
	// Disconnected says that a stream ended; the host reconnects with back-off by itself.
	Disconnected struct{ Conn ConnID }
	// FromController is one message of the open stream; of an older stream it is dropped.
	FromController struct {
		Conn    ConnID
		Message protocol.ToWorker
	}
	// Malformed says that a frame of the open stream could not be decoded. It is counted and changes nothing.
	Malformed struct{ Conn ConnID }
	// HandlerDone ends the handler that StartHandler began, whenever that is, also long after it was abandoned.
	HandlerDone struct {
		Run        RunID
		Outcome    protocol.Outcome // Confirmed, Nacked, Rejected, Delayed, or HandedBack when the app could not be reached at all
		Reason     string
		RetryAfter time.Duration
	}
	// AppReady says whether the app answers its port. Until it does there is no demand, and when it stops, unstarted jobs go back.
	AppReady struct{ Ready bool }
	// AppRestarted says that the app process was replaced; every running handler ended with it, in failure, orphans included.
	AppRestarted struct{}
	// Cordon stops demand of all flows if nothing is in flight in any, or in any case if Force (drain): then unstarted jobs go back at once and
	// running ones finish.
	Cordon struct{ Force bool }
	// Uncordon takes demand up again.
	Uncordon struct{}
	// ConsumerPaused is the Consumer's twin of Paused.
	ConsumerPaused struct{ For time.Duration }
	// ReconfigureConsumer replaces the tunables.
	ReconfigureConsumer struct{ Config ConsumerConfig }
	// OrphansGone says that the app process is gone that ran the handlers of an earlier sidecar process, while handlers of this one, if any,
	// answer for themselves.
	OrphansGone struct{}
	// HoldClaims hands over what an earlier process of this pod ran of a flow when it died, as ClaimLost. It is claimed at every registration
	// until a controller has ended it; before the first Connected it is part of the first one. Each holds a slot and its MessageID until
	// AppRestarted, OrphansGone, or the handler timeout from now.
	HoldClaims struct {
		Flow   string
		Claims []protocol.Claim
	}
)

func (ConsumerTick) consumerEvent()        {}
func (Connected) consumerEvent()           {}
func (Disconnected) consumerEvent()        {}
func (FromController) consumerEvent()      {}
func (HandlerDone) consumerEvent()         {}
func (AppReady) consumerEvent()            {}
func (AppRestarted) consumerEvent()        {}
func (Cordon) consumerEvent()              {}
func (Uncordon) consumerEvent()            {}
func (ConsumerPaused) consumerEvent()      {}
func (ReconfigureConsumer) consumerEvent() {}
func (HoldClaims) consumerEvent()          {}
func (OrphansGone) consumerEvent()         {}
func (Malformed) consumerEvent()           {}

// RunID names one invocation of the handler, unique within the process.
type RunID uint64

// --- actions of the Consumer ----------------------------------------------------------------------------------------

// ConsumerAction is the closed set of actions that ConsumerGroup.Step returns, to be executed in order.
type ConsumerAction interface{ consumerAction() }

type (
	// ToController sends a message on the open stream.
	ToController struct {
		Conn    ConnID
		Message protocol.FromWorker
	}
	// Reconnect ends the open stream and dials again (the controller was silent for a deadline).
	Reconnect struct{ Conn ConnID }
	// StartHandler invokes the app. The host must answer with exactly one HandlerDone for it, or AppRestarted.
	StartHandler struct {
		Run      RunID
		Flow     string
		Delivery protocol.Delivery
	}
	// CancelHandler asks the host to give up waiting politely (the attempt is past its timeout and abandoned). The slot stays
	// taken until HandlerDone.
	CancelHandler struct{ Run RunID }
	// OrphanEnded says that a handler of an earlier process holds no slot any more: it need not be remembered.
	OrphanEnded struct{ MessageID string }
	// ProducersEvicted warns that producers were forgotten for want of room, so many since the last warning; at most once a minute.
	ProducersEvicted struct {
		Evicted uint64
		Tracked int
	}
	// DeliveryRefused warns that a delivery was not admissible: nothing runs, and the controller is told.
	DeliveryRefused struct {
		Flow      string
		WorkerSeq int64
		Cause     error
	}
	// Drained says that after a forced Cordon nothing runs and every settlement was taken over by its controller (or there is no
	// binding left that could). Emitted once per drain.
	Drained struct{}
)

func (ToController) consumerAction()     {}
func (Reconnect) consumerAction()        {}
func (StartHandler) consumerAction()     {}
func (CancelHandler) consumerAction()    {}
func (OrphanEnded) consumerAction()      {}
func (ProducersEvicted) consumerAction() {}
func (DeliveryRefused) consumerAction()  {}
func (Drained) consumerAction()          {}
