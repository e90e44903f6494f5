package flow

import (
	"fmt"

	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// stateLoading is the state of a producer that does not know yet what its queue holds.
const stateLoading = "Loading"

// countLosses keeps the number of jobs that a Memory queue lost. A producer counts by itself what restarts of its container cost; what a
// pod held when another took its place, nobody but the operator can know, and it knows it from that pod's last report.
func (o *observation) countLosses(status *v1alpha1.WorkPullingFlowStatus) {
	report := o.stats.Stats
	if o.flow.Spec.Queue.Type != v1alpha1.QueueMemory || report == nil {
		return
	}
	known := ""
	if status.Memory != nil {
		known = status.Memory.PodUID
	}
	if report.PodUid != known {
		if o.pod == nil || report.PodUid != string(o.pod.UID) {
			return // it goes on without the cluster's knowledge
		}
		// The newest numbers of the pod before may not have come to a status of their own.
		if former := o.stats.Former; former != nil && (known == "" || former.PodUid == known) {
			takeLosses(status, former)
		}
	}
	takeLosses(status, report)
}

// takeLosses takes one report into the account.
func takeLosses(status *v1alpha1.WorkPullingFlowStatus, report *protocolv1.FlowStats) {
	lost, held := int64(report.LostVolatileTotal), report.BacklogJobs+report.InFlight+report.DeadLetters
	total := ptr.Deref(status.LostJobs, 0)
	switch before := status.Memory; {
	case before == nil:
		total = max(total, lost)
	case before.PodUID != report.PodUid:
		total += ptr.Deref(before.HeldJobs, 0) + lost
	default:
		counted := ptr.Deref(before.LostJobs, 0)
		total += max(lost-counted, 0)
		lost = max(lost, counted)
		if report.State == stateLoading {
			// Its process has just started, and has not said yet what that has cost.
			held = max(held, ptr.Deref(before.HeldJobs, 0))
		}
	}
	status.LostJobs = ptr.To(total)
	status.Memory = &v1alpha1.MemoryStatus{PodUID: report.PodUid, HeldJobs: ptr.To(held), LostJobs: ptr.To(lost)}
}

// lossNote tells what was lost between two statuses; it is empty where nothing was.
func lossNote(before, after *v1alpha1.WorkPullingFlowStatus) string {
	lost := ptr.Deref(after.LostJobs, 0) - ptr.Deref(before.LostJobs, 0)
	if lost <= 0 {
		return ""
	}
	return fmt.Sprintf("the Memory queue lost %d jobs when its producer stopped, by its last report; submit them again where they matter", lost)
}
