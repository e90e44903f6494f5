//go:build integration

package operator

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/fencing"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/test/builders"
)

// owns and stands are the reports of a member that has the queue, and of one that has not.
func owns(epoch uint64) *protocolv1.FlowStats {
	return &protocolv1.FlowStats{QueueAvailable: true, Epoch: epoch, QueueFormat: 1, Shared: true}
}

func stands(epoch uint64) *protocolv1.FlowStats {
	return &protocolv1.FlowStats{QueueAvailable: true, Epoch: epoch, Shared: true, State: runtimeconfig.StateStandby}
}

// become replaces what a member reports.
func (p *producer) become(stats *protocolv1.FlowStats) {
	p.set(func(s *protocolv1.FlowStats) {
		s.State, s.Epoch, s.QueueAvailable, s.QueueCode, s.QueueMessage = stats.State, stats.Epoch, stats.QueueAvailable, stats.QueueCode, stats.QueueMessage
	})
}

// sharedFlow makes a flow with three producers, of which the first has the queue.
func sharedFlow(ctx SpecContext) (string, []*producer) {
	GinkgoHelper()
	namespace := newNamespace(ctx)
	newNode(namespace)
	Expect(env.Client.Create(ctx, builders.MakeFlow(flowName, namespace).PostgreSQL("orders-db", 3).Obj())).To(Succeed())
	var members []*producer
	for i := range 3 {
		report := stands(1)
		if i == 0 {
			report = owns(1)
		}
		members = append(members, newMember(ctx, namespace, flowName, i, report))
	}
	Eventually(flowCondition(ctx, namespace, flowName, v1alpha1.ConditionReady)).Should(Equal("True/Serving"))
	return namespace, members
}

func crewOf(ctx SpecContext, namespace string) func() string {
	return func() string {
		s := getFlow(ctx, namespace, flowName).Status.Producer
		if s == nil {
			return "absent"
		}
		return fmt.Sprintf("%s+%d", s.ActivePod, ptr.Deref(s.ReadyStandbys, -1))
	}
}

var _ = Describe("A flow with a shared queue", func() {
	It("has three producers without a volume, a Lease and a disruption budget, and shows who owns the queue", func(ctx SpecContext) {
		namespace, members := sharedFlow(ctx)
		var set appsv1.StatefulSet
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "orders-producer"}, &set)).To(Succeed())
		Expect(set.Spec.VolumeClaimTemplates).To(BeEmpty())
		Expect(set.Spec.Replicas).To(HaveValue(BeEquivalentTo(3)))
		var budget policyv1.PodDisruptionBudget
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "orders-producer"}, &budget)).To(Succeed())
		Eventually(crewOf(ctx, namespace)).Should(Equal("orders-producer-0+2"))

		By("taking a takeover over, without a moment of not being ready")
		members[0].become(stands(2))
		members[1].become(owns(2))
		Eventually(crewOf(ctx, namespace)).Should(Equal("orders-producer-1+2"))
		Expect(flowCondition(ctx, namespace, flowName, v1alpha1.ConditionReady)()).To(Equal("True/Serving"))
		Expect(getFlow(ctx, namespace, flowName).Status.Queue.Epoch).To(BeEquivalentTo(2))
		Eventually(func(g Gomega) {
			var events eventsv1.EventList
			g.Expect(env.Client.List(ctx, &events, client.InNamespace(namespace))).To(Succeed())
			var notes []string
			for _, e := range events.Items {
				notes = append(notes, e.Reason+": "+e.Note)
			}
			g.Expect(notes).To(ContainElement("QueueTakenOver: Producer orders-producer-1 took the queue over from orders-producer-0"))
			g.Expect(notes).NotTo(ContainElement(HavePrefix("Ready")))
		}).Should(Succeed())

		By("scaling without touching the pods that stay")
		var before corev1.Pod
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "orders-producer-1"}, &before)).To(Succeed())
		flow := getFlow(ctx, namespace, flowName)
		flow.Spec.Producer.Replicas = 2
		Expect(env.Client.Update(ctx, flow)).To(Succeed())
		Eventually(exists(ctx, &corev1.Pod{ObjectMeta: named(namespace, "orders-producer-2")})).Should(BeFalse())
		Eventually(crewOf(ctx, namespace)).Should(Equal("orders-producer-1+1"))
		var after corev1.Pod
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "orders-producer-1"}, &after)).To(Succeed())
		Expect(after.UID).To(Equal(before.UID))
	})

	It("says that its Secret is missing, and how to make it", func(ctx SpecContext) {
		namespace, members := sharedFlow(ctx)
		for _, m := range members {
			missing := stands(0)
			missing.QueueAvailable, missing.QueueCode, missing.QueueMessage = false, runtimeconfig.QueueConnectionMissing, "no Secret"
			m.become(missing)
		}
		Eventually(flowCondition(ctx, namespace, flowName, v1alpha1.ConditionReady)).Should(Equal("False/ConnectionSecretMissing"))
	})

	It("lets its producers write the one Lease and no other", func(ctx SpecContext) {
		namespace, _ := sharedFlow(ctx)
		Expect(env.Client.Create(ctx, &coordinationv1.Lease{ObjectMeta: named(namespace, "somebody-elses")})).To(Succeed())
		config := rest.CopyConfig(env.Config)
		config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":orders-producer", Groups: []string{"system:authenticated"}}
		open := func(name string) *fencing.Lease {
			lease, err := fencing.NewLease(config, namespace, name, clock.RealClock{})
			Expect(err).NotTo(HaveOccurred())
			return lease
		}
		ours := open("orders-producer")
		free, err := ours.Read(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(free.Holder).To(BeEmpty())
		held, err := ours.Hold(ctx, "a", 10*time.Second, free)
		Expect(err).NotTo(HaveOccurred())
		Expect(held.Holder).To(Equal("a"))
		Expect(held.Transitions).To(BeEquivalentTo(1))

		By("letting one of two win")
		_, err = ours.Hold(ctx, "b", 10*time.Second, free)
		Expect(err).To(MatchError(apierrors.IsConflict, "IsConflict"))
		renewed, err := ours.Hold(ctx, "a", 10*time.Second, held)
		Expect(err).NotTo(HaveOccurred())
		Expect(renewed.Transitions).To(BeEquivalentTo(1))
		Expect(renewed.Version).NotTo(Equal(held.Version))
		halted, err := ours.Halt(ctx, "why", renewed)
		Expect(err).NotTo(HaveOccurred())
		released, err := ours.Release(ctx, halted)
		Expect(err).NotTo(HaveOccurred())
		Expect(released.Holder).To(BeEmpty())
		Expect(released.Halted).To(Equal("why"))
		_, err = ours.Halt(ctx, "late", renewed)
		Expect(err).To(MatchError(apierrors.IsConflict, "IsConflict"))
		answered, err := ours.Halt(ctx, "", released)
		Expect(err).NotTo(HaveOccurred())
		Expect(answered.Halted).To(BeEmpty())

		By("letting it see whose the workers' Leases are, and write none")
		theirs := open("somebody-elses")
		seen, err := theirs.Read(ctx)
		Expect(err).NotTo(HaveOccurred())
		_, err = theirs.Hold(ctx, "a", 10*time.Second, seen)
		Expect(err).To(MatchError(apierrors.IsForbidden, "IsForbidden"))

		By("making it again when it is deleted")
		Expect(env.Client.Delete(ctx, &coordinationv1.Lease{ObjectMeta: named(namespace, "orders-producer")})).To(Succeed())
		Eventually(exists(ctx, &coordinationv1.Lease{ObjectMeta: named(namespace, "orders-producer")})).Should(BeTrue())
	})

	It("has the pod of a node that is not heard of made again", func(ctx SpecContext) {
		namespace, _ := sharedFlow(ctx)
		taint := corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}
		lost := &corev1.Node{ObjectMeta: named("", "lost-"+namespace), Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint}}}
		create(ctx, lost)
		pod := &corev1.Pod{}
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "orders-producer-2"}, pod)).To(Succeed())
		Expect(env.Client.SubResource("binding").Create(ctx, pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: lost.Name}})).To(Succeed())
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		before := pod.DeepCopy()
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}}
		Expect(env.Client.Status().Patch(ctx, pod, client.MergeFrom(before))).To(Succeed())
		Eventually(func(g Gomega) {
			again := &corev1.Pod{}
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(pod), again)).To(Succeed())
			g.Expect(again.UID).NotTo(Equal(pod.UID))
		}).Should(Succeed())
	})
})
