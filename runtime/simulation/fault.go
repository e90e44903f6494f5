package simulation

// Fault names one kind of misfortune. Counts of them prove that a run, or many runs together, really met it.
type Fault int

// The faults, from the network upwards.
const (
	MessageDropped Fault = iota
	MessageRepeated
	MessageReordered
	StreamCut
	StreamHalfOpen
	PodPartitioned
	StaleStreamMessage
	GarbledToWorker
	LateRegistration
	SidecarCrashed
	PodReplaced
	PodGoneUnnoticed
	SidecarPaused
	AppRestarted
	AppUnready
	ProducerCrashed
	ProducerCrashedMidStep
	ProducerPaused
	Takeover
	FencedFailure
	SubmitterCrashed
	SubmitterMisused
	BodyConflicted
	InvalidSubmitted
	QueueFailedBefore
	QueueFailedAfter
	QueueHung
	QueueSlow
	QueueCommittedLate
	GhostTooLate
	LongOutage
	DecisionInDoubt
	DecisionTooEarly
	ClockDrifted
	SidecarCrashedMidStep
	PauseUnnoticed
	QueueOutage
	ConfirmStuck
	LoadFailed
	ResultRepeated
	VolatileLoss
	Compacted
	Resubmitted
	DeadLettered
	Redriven
	DeadLetterDropped
	Cordoned
	Uncordoned
	DrainStarted
	DrainFinished
	DrainKilled
	ScaledUp
	ScaledDown
	Reconfigured
	IntakeClosed
	IntruderSpoke
	ForgedSettlement
	ForgedClaim
	HandlerNacked
	HandlerBroken
	HandlerRejected
	HandlerDelayed
	HandlerUnreachable
	HandlerOverran
	PoisonKilled
	RevisionPaused
	FlappingQuarantined
	faults
)

var faultNames = [faults]string{
	MessageDropped: "message dropped", MessageRepeated: "message repeated", MessageReordered: "message reordered",
	StreamCut: "stream cut", StreamHalfOpen: "stream half open", PodPartitioned: "pod partitioned",
	StaleStreamMessage: "message on a closed stream", GarbledToWorker: "garbled message to a worker",
	LateRegistration: "registration of a dead process", ResultRepeated: "queue result repeated",
	SidecarCrashed: "sidecar crashed", PodReplaced: "pod replaced", PodGoneUnnoticed: "pod gone unnoticed",
	SidecarPaused: "sidecar paused", AppRestarted: "app restarted", AppUnready: "app not ready",
	ProducerCrashed: "producer crashed", ProducerCrashedMidStep: "producer crashed between actions",
	ProducerPaused: "producer paused", Takeover: "takeover by a second producer", FencedFailure: "old producer fenced",
	SubmitterCrashed: "submitter crashed", SubmitterMisused: "submitter broke the handshake",
	BodyConflicted: "same id, other body", InvalidSubmitted: "invalid job submitted",
	QueueFailedBefore: "queue failed before commit", QueueFailedAfter: "queue failed after commit", QueueHung: "queue hung to the deadline",
	QueueSlow:          "queue answered late",
	QueueCommittedLate: "queue committed after its caller had gone", GhostTooLate: "abandoned write came too late",
	LongOutage: "queue outage beyond the deduplication window", DecisionInDoubt: "decision of a person without an answer",
	DecisionTooEarly: "decision before the dead letter was acknowledged",
	ClockDrifted:     "process with a drifting clock", SidecarCrashedMidStep: "sidecar crashed between actions",
	PauseUnnoticed: "pause that its process did not notice", QueueOutage: "queue outage", ConfirmStuck: "one confirm stuck",
	LoadFailed: "load failed", VolatileLoss: "volatile queue lost jobs", Compacted: "tombstone compacted",
	Resubmitted: "settled id submitted again", DeadLettered: "job dead-lettered", Redriven: "dead letter re-driven",
	DeadLetterDropped: "dead letter dropped", Cordoned: "worker cordoned", Uncordoned: "worker uncordoned",
	DrainStarted: "drain started", DrainFinished: "drain finished", DrainKilled: "drain cut short", ScaledUp: "scaled up",
	ScaledDown: "scaled down", Reconfigured: "reconfigured", IntakeClosed: "intake closed", IntruderSpoke: "intruder spoke",
	ForgedSettlement: "settlement forged", ForgedClaim: "claim forged", HandlerNacked: "handler nacked", HandlerBroken: "handler of a broken revision failed",
	HandlerRejected: "handler rejected",
	HandlerDelayed:  "handler delayed", HandlerUnreachable: "app unreachable", HandlerOverran: "handler ran past its timeout",
	PoisonKilled: "poison job killed its worker", RevisionPaused: "revision paused by its breaker",
	FlappingQuarantined: "flapping pod quarantined",
}

func (f Fault) String() string { return faultNames[f] }

// Counts says what happened in one run or, added up, in many.
type Counts struct {
	Faults      [faults]uint64
	Runs        uint64
	Steps       uint64
	Messages    uint64
	Submissions uint64
	Stored      uint64
	Confirmed   uint64
	Redelivered uint64
	// DuplicateRuns are handler successes beyond the first of a job: at-least-once made visible.
	DuplicateRuns uint64
	// ConcurrentRuns are handlers that began while another worker still ran the same job.
	ConcurrentRuns uint64
	Lost           uint64
	Reloads        uint64
	// Adopted are jobs that went on in another binding by a claim, LettersClaimed dead letters that one confirmed.
	Adopted, LettersClaimed uint64
	Profiles                map[string]uint64
}

// Add adds another run's counts.
func (c *Counts) Add(o Counts) {
	for i := range &c.Faults {
		c.Faults[i] += o.Faults[i]
	}
	c.Runs += o.Runs
	c.Steps += o.Steps
	c.Messages += o.Messages
	c.Submissions += o.Submissions
	c.Stored += o.Stored
	c.Confirmed += o.Confirmed
	c.Redelivered += o.Redelivered
	c.DuplicateRuns += o.DuplicateRuns
	c.ConcurrentRuns += o.ConcurrentRuns
	c.Lost += o.Lost
	c.Reloads += o.Reloads
	c.Adopted += o.Adopted
	c.LettersClaimed += o.LettersClaimed
	if c.Profiles == nil {
		c.Profiles = map[string]uint64{}
	}
	for name, n := range o.Profiles {
		c.Profiles[name] += n
	}
}

// Missing lists the faults that never happened.
func (c *Counts) Missing() []Fault {
	var missing []Fault
	for f, n := range &c.Faults {
		if n == 0 {
			missing = append(missing, Fault(f))
		}
	}
	return missing
}
