package producer

import (
	"time"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// Values of runtimeconfig.Producer.QueueType.
const (
	queueLocal      = "Local"
	queueMemory     = "Memory"
	queuePostgreSQL = "PostgreSQL"
)

// controllerConfig translates the document; zero values mean the API's defaults, except where zero has a meaning of its own.
func controllerConfig(document runtimeconfig.Producer) delivery.ControllerConfig {
	out := delivery.DefaultControllerConfig()
	milliseconds(&out.RetryInterval, document.RetryIntervalMS)
	out.DeliveryConfirmation = document.DeliveryConfirmation
	out.BacklogJobs = int(document.BacklogMaxJobs)
	out.BacklogBytes = document.BacklogMaxBytes
	out.MaxPayloadBytes = maxPayload(document)
	out.MaxAttempts = document.MaxAttempts
	milliseconds(&out.BackoffInitial, document.BackoffInitialMS)
	milliseconds(&out.BackoffMax, document.BackoffMaxMS)
	out.BackoffMax = max(out.BackoffMax, out.BackoffInitial)
	milliseconds(&out.Heartbeat, 1000*document.HeartbeatSec)
	milliseconds(&out.Deadline, 1000*document.DeadlineSec)
	if document.MaxWindow > 0 {
		out.MaxWindow = min(document.MaxWindow, protocol.MaxFlowControlWindow)
	}
	out.Dispatch = delivery.Dispatch(document.Dispatch)
	if document.QueueAttempts > 0 {
		out.QueueAttempts = document.QueueAttempts
	}
	milliseconds(&out.QueueBackoff, document.QueueBackoffMS)
	return out
}

func milliseconds(into *time.Duration, value int64) {
	if value > 0 {
		*into = time.Duration(value) * time.Millisecond
	}
}

// seconds converts a number of the document; 0 stays 0, for which the receiver has its default.
func seconds(value int64) time.Duration { return time.Duration(max(value, 0)) * time.Second }

// maxPayload is the flow's limit for one payload, 1 MiB by default.
func maxPayload(document runtimeconfig.Producer) int {
	if document.PayloadMaxBytes <= 0 {
		return 1 << 20
	}
	return int(min(document.PayloadMaxBytes, protocol.MaxPayloadBytes))
}

// intakeOf translates what a flow does with jobs; a document without it comes from an operator that knows no other state.
func intakeOf(document runtimeconfig.Producer) delivery.SetIntake {
	switch document.Intake {
	case runtimeconfig.IntakeSuspended:
		return delivery.SetIntake{}
	case runtimeconfig.IntakeDraining:
		return delivery.SetIntake{Dispatch: true}
	default:
		return delivery.SetIntake{Open: true, Dispatch: true}
	}
}

// deduplication is how long a settled id is remembered. 0 in the document is zero, as in the API.
func deduplication(document runtimeconfig.Producer) time.Duration {
	return seconds(document.DeduplicationSec)
}
