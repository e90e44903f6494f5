package simulation

import (
	"fmt"
	"strings"
)

// Class is a kind of misfortune that the contract speaks of, and the faults by which the worlds meet it.
type Class struct {
	Name string
	// Contract names scenarios of contract B.
	Contract string
	Faults   []Fault
}

// Classes says which misfortune of the contract is met by which fault. Every fault belongs to one, and every run over all profiles
// that is long enough must have met every fault.
var Classes = []Class{
	{"network: loss, repetition, disorder", "B-003, B-120…B-126, B-130, B-146", []Fault{MessageDropped, MessageRepeated, MessageReordered}},
	{"network: cut and half-open streams, late words", "B-089, B-093, B-170, B-256", []Fault{
		StreamCut, StreamHalfOpen, PodPartitioned, StaleStreamMessage, LateRegistration,
	}},
	{"crash of a worker's sidecar at any step", "B-086, B-087, B-160…B-168", []Fault{
		SidecarCrashed, SidecarCrashedMidStep, PodReplaced, PodGoneUnnoticed, PoisonKilled,
	}},
	{"the app beside a living sidecar", "B-088, B-180…B-188", []Fault{
		AppRestarted, AppUnready, HandlerNacked, HandlerRejected, HandlerDelayed, HandlerUnreachable, HandlerOverran, DeadLettered,
	}},
	{"crash of a producer at any step", "B-020…B-033", []Fault{ProducerCrashed, ProducerCrashedMidStep, VolatileLoss}},
	{"submitters: crash, repetition, misuse", "B-001…B-015, B-030, B-031", []Fault{
		SubmitterCrashed, SubmitterMisused, BodyConflicted, InvalidSubmitted, Resubmitted,
	}},
	{"two producers, one of them paused and resumed", "B-070…B-076", []Fault{Takeover, FencedFailure}},
	{"paused processes, clocks that go at other rates", "B-070, B-076, B-169", []Fault{
		ProducerPaused, SidecarPaused, PauseUnnoticed, ClockDrifted,
	}},
	{"queue: errors before and after the commit", "B-022, B-029, B-057, B-231…B-235", []Fault{
		QueueFailedBefore, QueueFailedAfter, QueueHung, QueueSlow, LoadFailed, ResultRepeated, ConfirmStuck,
	}},
	{"queue as a shared database: late effects of callers that are gone", "B-071, B-072", []Fault{QueueCommittedLate, GhostTooLate}},
	{"queue: outages, also beyond the deduplication window", "B-031, B-049, B-239", []Fault{QueueOutage, LongOutage, Compacted}},
	{"people decide meanwhile", "B-184, B-060", []Fault{Redriven, DeadLetterDropped, DecisionInDoubt, DecisionTooEarly}},
	{"pools: drain, scaling", "B-109, B-172, B-173, B-221…B-224", []Fault{
		Cordoned, Uncordoned, DrainStarted, DrainFinished, DrainKilled, ScaledUp, ScaledDown,
	}},
	{"live configuration change", "B-264", []Fault{Reconfigured, IntakeClosed}},
	{"revisions whose every job fails, pods that flap", "B-174, B-185", []Fault{HandlerBroken, RevisionPaused, FlappingQuarantined}},
	{"enemies", "B-080…B-090, B-102…B-105, B-124, B-140…B-144, B-200…B-204", []Fault{GarbledToWorker, IntruderSpoke, ForgedSettlement, ForgedClaim}},
}

// ClassTable is Classes for people, as Markdown.
func ClassTable() string {
	var table strings.Builder
	table.WriteString("| misfortune | contract | faults |\n|---|---|---|\n")
	for _, c := range Classes {
		names := make([]string, len(c.Faults))
		for i, f := range c.Faults {
			names[i] = f.String()
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", c.Name, c.Contract, strings.Join(names, "; "))
	}
	return table.String()
}
