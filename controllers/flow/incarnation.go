package flow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/conditions"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// eventDeliveryFailed is the reason of the one Event about the end of each incarnation of the queue's writer, whether it failed for good or
// another one took over. What was told is in the status, so that it is told once, whichever operator looks and however often it is reported.
const eventDeliveryFailed = "ReliableDeliveryFailed"

// ended is an incarnation whose end nobody was told of.
type ended struct {
	pod  *corev1.Pod // nil where it is gone
	note string
	// reason is that of the conditions which tell of the same; empty where the flow goes on.
	reason string
}

// newsOf is what the status after tells for the first time.
func (o *observation) newsOf(after *v1alpha1.WorkPullingFlowStatus) []ended {
	var news []ended
	for _, f := range o.fenced() {
		if f.isNews(o.toldEpochs()) {
			news = append(news, ended{pod: o.podOf(f.report.PodUid), note: f.note(after)})
		}
	}
	last := after.LastFailure
	if last == nil || equality.Semantic.DeepEqual(last, o.flow.Status.LastFailure) {
		return news
	}
	if last.RecoverNonce == nil && last.Reason != v1alpha1.ReasonQueueFormatUnsupported {
		return news // it heals by itself, or a person has answered it
	}
	told := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionDeliveryFailed)
	return append(news, ended{
		pod: o.podOf(o.stats.Stats.GetPodUid()), reason: last.Reason,
		note: fmt.Sprintf("%s: %s", last.Reason, told.Message),
	})
}

// announce makes the Events of a status that was written. A transition that says no more than one of the news is not told besides.
func announce(recorder events.EventRecorder, flow *v1alpha1.WorkPullingFlow, news []ended, changed []conditions.Transition) {
	for _, n := range news {
		var related runtime.Object
		if n.pod != nil {
			related = n.pod
		}
		recorder.Eventf(flow, related, corev1.EventTypeWarning, eventDeliveryFailed, "Delivering", "%s", conditions.Truncate(n.note))
		changed = slices.DeleteFunc(slices.Clone(changed), func(t conditions.Transition) bool { return n.reason != "" && t.Reason == n.reason })
	}
	conditions.Announce(recorder, flow, changed, announced, inverted)
}

func (o *observation) podOf(uid string) *corev1.Pod {
	for i := range o.pods {
		if string(o.pods[i].UID) == uid {
			return &o.pods[i]
		}
	}
	return nil
}

// fencedWriter is one that another member has ended, by the report of its own process.
type fencedWriter struct {
	epoch  int64
	writer *protocolv1.FencedIncarnation
	report *protocolv1.FlowStats
}

// fenced lists those that the members report, by their epochs.
func (o *observation) fenced() []fencedWriter {
	var list []fencedWriter
	for _, report := range append(slices.Clone(o.stats.Standbys), o.stats.Stats) {
		for _, writer := range report.GetFenced() {
			if epoch := int64(writer.Epoch); epoch > 0 { //nolint:gosec // what does not fit is no epoch
				list = append(list, fencedWriter{epoch, writer, report})
			}
		}
	}
	slices.SortFunc(list, func(a, b fencedWriter) int { return cmp.Compare(a.epoch, b.epoch) })
	return slices.CompactFunc(list, func(a, b fencedWriter) bool { return a.epoch == b.epoch })
}

// mostTold bounds status.producer.fencedEpochs. Older ones are taken for told.
const mostTold = 16

func (o *observation) toldEpochs() []int64 {
	if o.flow.Status.Producer == nil {
		return nil
	}
	return o.flow.Status.Producer.FencedEpochs
}

// fencedEpochs are those that are told once the status is written.
func (o *observation) fencedEpochs() []int64 {
	told := slices.Clone(o.toldEpochs())
	for _, f := range o.fenced() {
		if f.isNews(o.toldEpochs()) {
			told = append(told, f.epoch)
		}
	}
	slices.Sort(told)
	return told[max(0, len(told)-mostTold):]
}

func (f fencedWriter) isNews(told []int64) bool {
	return !slices.Contains(told, f.epoch) && (len(told) < mostTold || f.epoch > told[0])
}

// note says what has ended, and that it needs nobody.
func (f fencedWriter) note(after *v1alpha1.WorkPullingFlowStatus) string {
	where := ""
	if f.writer.Stage != "" {
		where = ", stage " + f.writer.Stage
	}
	heir := "another producer has the queue"
	if after.Producer != nil && after.Producer.ActivePod != "" {
		heir = "producer " + after.Producer.ActivePod + " has the queue"
	}
	return strings.TrimSpace(fmt.Sprintf("producer %s was fenced at epoch %d%s: %s; %s, and the flow goes on without a person",
		f.report.PodName, f.epoch, where, f.writer.Reason, heir))
}
