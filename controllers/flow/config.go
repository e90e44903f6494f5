package flow

import (
	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/podbuilder"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// document is what the producer reads, and re-reads.
func document(flow *v1alpha1.WorkPullingFlow, intake runtimeconfig.Intake, settings Settings) runtimeconfig.Producer {
	doc := podbuilder.ProducerDocument(flow, intake)
	doc.OperatorAddress, doc.OperatorHost = settings.OperatorAddress, settings.OperatorHost
	doc.Halted = halted(flow)
	return doc
}

// halted is the failure that keeps the queue from being loaded: the last one, where it was terminal and nobody has bumped the nonce since.
// The producer keeps that in mind by itself; this is for a pod that takes its place.
func halted(flow *v1alpha1.WorkPullingFlow) *runtimeconfig.Halt {
	last := flow.Status.LastFailure
	if last == nil || last.RecoverNonce == nil || *last.RecoverNonce != flow.Spec.RecoverNonce {
		return nil
	}
	return &runtimeconfig.Halt{Stage: last.Stage, Code: failureCode(last.Stage, last.Reason), Reason: last.Message}
}
