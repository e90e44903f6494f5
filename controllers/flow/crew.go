package flow

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/conditions"
	"github.com/workpulling/workpulling/internal/podhealth"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// The crew of a flow are the producers that share its queue.

// observeLost finds the pods on nodes that are gone, or that the cluster has lost touch with for as long as it takes to say so.
func (r *Reconciler) observeLost(ctx context.Context, o *observation) error {
	for i := range o.pods {
		pod := &o.pods[i]
		if podhealth.IsReady(pod) || pod.Spec.NodeName == "" {
			continue
		}
		node, err := get(ctx, r.Live, types.NamespacedName{Name: pod.Spec.NodeName}, &corev1.Node{})
		if err != nil {
			return err
		}
		if node == nil || unreachable(node) {
			o.lost = append(o.lost, *pod)
		}
	}
	return nil
}

// unreachable says that the node controller has not heard of the node for its grace period. A node that only says of itself that it is
// not ready still stops its pods when it is told to.
func unreachable(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeUnreachable {
			return true
		}
	}
	return false
}

// replaceLost deletes the pods of lost nodes by force, so that the StatefulSet makes them again elsewhere. Their processes may go on: the
// epoch of the queue fences them, so that two of one name do no harm where the queue is shared, and only there.
func (r *Reconciler) replaceLost(ctx context.Context, o *observation) error {
	for i := range o.lost {
		pod := &o.lost[i]
		err := r.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting pod %s of a lost node: %w", pod.Name, err)
		}
		r.Recorder.Eventf(o.flow, pod, corev1.EventTypeWarning, "ProducerReplaced", "Replacing",
			"Deleted pod %s by force: node %s is gone or unreachable, and the queue is shared", pod.Name, pod.Spec.NodeName)
	}
	return nil
}

// crewStatus says which pod of a shared queue does what.
func (o *observation) crewStatus() *v1alpha1.ProducerStatus {
	if !o.flow.Spec.Queue.IsShared() {
		return nil
	}
	status := &v1alpha1.ProducerStatus{ReadyStandbys: ptr.To(int32(o.readyStandbys())), FencedEpochs: o.fencedEpochs()}
	switch {
	case o.stats.Connected && o.pod != nil:
		status.ActivePod = o.pod.Name
	case !o.silent && o.flow.Status.Producer != nil:
		status.ActivePod = o.flow.Status.Producer.ActivePod
	}
	return status
}

// readyStandbys counts the members that could take over now.
func (o *observation) readyStandbys() int {
	count := 0
	for _, s := range o.stats.Standbys {
		for i := range o.pods {
			if string(o.pods[i].UID) == s.PodUid && s.QueueAvailable && podhealth.IsReady(&o.pods[i]) {
				count++
			}
		}
	}
	return count
}

// crewComplete says that nothing is missing among the producers.
func (o *observation) crewComplete() bool {
	return !o.flow.Spec.Queue.IsShared() || o.readyStandbys() == int(o.flow.ProducerReplicas())-1
}

// crewLag says what is missing among the members that stand by. Empty means nothing.
func (o *observation) crewLag() string {
	if o.crewComplete() {
		return ""
	}
	text := fmt.Sprintf("%d of %d standbys are ready", o.readyStandbys(), o.flow.ProducerReplicas()-1)
	for i := range o.pods {
		if problem := podhealth.Diagnose(&o.pods[i]); problem.Message != "" {
			return text + ": " + problem.Message
		}
	}
	return text
}

// leaderless says what to tell while members report and none of them has the queue.
func (o *observation) leaderless() (conditions.Condition, bool) {
	if o.stats.Connected || len(o.stats.Standbys) == 0 {
		return conditions.Condition{}, false
	}
	return conditions.False(v1alpha1.ConditionProducerAvailable, v1alpha1.ReasonNoActiveProducer,
		fmt.Sprintf("%d producers stand by and none of them owns the queue", len(o.stats.Standbys))), true
}

// crewQueue is what the members that stand by say of a queue that nobody has.
func (o *observation) crewQueue() (conditions.Condition, bool) {
	const kind = v1alpha1.ConditionQueueAvailable
	if o.stats.Connected {
		return conditions.Condition{}, false
	}
	standbys := o.stats.Standbys
	for _, s := range standbys {
		if s.QueueAvailable {
			return conditions.Condition{}, false
		}
	}
	switch {
	case len(standbys) == 0:
		return conditions.Condition{}, false
	case standbys[0].QueueCode == runtimeconfig.QueueConnectionMissing:
		return conditions.False(kind, v1alpha1.ReasonConnectionSecretMissing, o.connectionHint()), true
	default:
		return conditions.False(kind, v1alpha1.ReasonStoreUnavailable, "the queue cannot be opened: "+standbys[0].QueueMessage+o.databaseHint()), true
	}
}

// databaseHint says where a person may look while the queue of a database fails. Empty for other queues.
func (o *observation) databaseHint() string {
	if !o.flow.Spec.Queue.IsShared() {
		return ""
	}
	ref := o.flow.Spec.Queue.PostgreSQL.ConnectionSecretRef
	return fmt.Sprintf("; look after the database, or correct Secret %s, key %q: producers try on, and read a changed Secret within a minute or two", ref.Name, ref.Key)
}

func (o *observation) connectionHint() string {
	ref := o.flow.Spec.Queue.PostgreSQL.ConnectionSecretRef
	return fmt.Sprintf("Secret %s does not exist or has no key %q; the producer goes on by itself a minute after: kubectl create secret generic -n %s %s --from-literal=%s='postgres://USER:PASSWORD@HOST/DATABASE'",
		ref.Name, ref.Key, o.flow.Namespace, ref.Name, ref.Key)
}

// failing is the report that tells of a failure, if any: that of the member which has the queue, or where there is none, of one that
// cannot load it for a minute already.
func (o *observation) failing() *protocolv1.FlowStats {
	if !o.stats.Connected {
		for _, s := range o.stats.Standbys {
			if s.FailureStage == "" {
				return o.stats.Stats
			}
		}
		if len(o.stats.Standbys) > 0 {
			return o.stats.Standbys[0]
		}
	}
	return o.stats.Stats
}

// takeoverNote tells of another pod that has the queue.
func takeoverNote(before, after *v1alpha1.WorkPullingFlowStatus) string {
	if before.Producer == nil || after.Producer == nil || before.Producer.ActivePod == "" || after.Producer.ActivePod == "" ||
		before.Producer.ActivePod == after.Producer.ActivePod {
		return ""
	}
	return fmt.Sprintf("Producer %s took the queue over from %s", after.Producer.ActivePod, before.Producer.ActivePod)
}
