//go:build integration

package operator

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/test/builders"
)

func readyMessage(ctx SpecContext, namespace string) func() string {
	return func() string {
		flow := getFlowOrNil(ctx, namespace, flowName)
		if flow == nil {
			return "gone"
		}
		c := meta.FindStatusCondition(flow.Status.Conditions, v1alpha1.ConditionReady)
		return c.Reason + ": " + c.Message
	}
}

var _ = Describe("Deletion", func() {
	flowGone := func(ctx SpecContext, namespace string) func() bool {
		return func() bool { return getFlowOrNil(ctx, namespace, flowName) == nil }
	}
	poolGone := func(ctx SpecContext, namespace string) func() bool {
		return func() bool {
			return !exists(ctx, &v1alpha1.WorkerPool{ObjectMeta: named(namespace, poolName)})()
		}
	}

	It("of a flow with policy Drain waits for its jobs, says so, and leaves nothing behind", func(ctx SpecContext) {
		namespace, p := servingFlow(ctx, nil)
		p.set(func(s *protocolv1.FlowStats) { s.BacklogJobs, s.DeadLetters = 3, 1 })
		Eventually(flowCondition(ctx, namespace, flowName, v1alpha1.ConditionHasDeadLetters)).Should(Equal("True/JobsDeadLettered"))
		Expect(env.Client.Delete(ctx, getFlow(ctx, namespace, flowName))).To(Succeed())
		Eventually(readyMessage(ctx, namespace)).Should(And(
			HavePrefix("Deleting: 3 jobs are not confirmed and 1 dead letters wait"), ContainSubstring("no worker is bound"), ContainSubstring("Discard")))
		config := &corev1.ConfigMap{ObjectMeta: named(namespace, "orders-producer")}
		Expect(exists(ctx, config)()).To(BeTrue())
		Expect(config.Data["config.json"]).To(ContainSubstring(`"intake": "Draining"`))
		p.set(func(s *protocolv1.FlowStats) { s.BacklogJobs, s.DeadLetters = 0, 0 })
		Eventually(flowGone(ctx, namespace)).Should(BeTrue())
		for _, child := range childrenOf(namespace) {
			Eventually(exists(ctx, child)).Should(BeFalse(), "%T %s", child, child.GetName())
		}
	})

	It("of a flow with policy Refuse goes on taking jobs until it is empty", func(ctx SpecContext) {
		namespace, p := servingFlow(ctx, func(f *v1alpha1.WorkPullingFlow) { f.Spec.DeletionPolicy = v1alpha1.DeletionRefuse })
		p.set(func(s *protocolv1.FlowStats) { s.InFlight = 1 })
		Eventually(func() *int64 { return getFlow(ctx, namespace, flowName).Status.InFlight }).Should(HaveValue(Equal(int64(1))))
		Expect(env.Client.Delete(ctx, getFlow(ctx, namespace, flowName))).To(Succeed())
		Eventually(readyMessage(ctx, namespace)).Should(HavePrefix("DeletionRefused: 1 jobs are not confirmed"))
		config := &corev1.ConfigMap{ObjectMeta: named(namespace, "orders-producer")}
		Expect(exists(ctx, config)()).To(BeTrue())
		Expect(config.Data["config.json"]).To(ContainSubstring(`"intake": "Open"`))
		p.set(func(s *protocolv1.FlowStats) { s.InFlight = 0 })
		Eventually(flowGone(ctx, namespace)).Should(BeTrue())
	})

	It("of a flow whose producer is gone for good waits, and ends with Discard", func(ctx SpecContext) {
		namespace, p := servingFlow(ctx, nil)
		p.set(func(s *protocolv1.FlowStats) { s.BacklogJobs, s.State = 3, "Running" })
		Eventually(func() *int64 { return getFlow(ctx, namespace, flowName).Status.Backlog }).Should(HaveValue(Equal(int64(3))))
		pod := &corev1.Pod{ObjectMeta: named(namespace, "orders-producer-0")}
		create(ctx, &corev1.ResourceQuota{ObjectMeta: named(namespace, "none"), Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": zero}}})
		Eventually(func() bool {
			quota := &corev1.ResourceQuota{ObjectMeta: named(namespace, "none")}
			return exists(ctx, quota)() && len(quota.Status.Hard) > 0
		}).Should(BeTrue())
		Expect(env.Client.Delete(ctx, pod)).To(Succeed())
		Expect(env.Client.Delete(ctx, getFlow(ctx, namespace, flowName))).To(Succeed())
		Eventually(readyMessage(ctx, namespace)).Should(And(ContainSubstring("does not report"), ContainSubstring("Discard")))
		editFlow(ctx, namespace, func(f *v1alpha1.WorkPullingFlow) { f.Spec.DeletionPolicy = v1alpha1.DeletionDiscard })
		Eventually(flowGone(ctx, namespace)).Should(BeTrue())
	})

	It("of a flow that never stored a job ends at once", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		Expect(env.Client.Create(ctx, builders.MakeFlow(flowName, namespace).Obj())).To(Succeed())
		Eventually(flowCondition(ctx, namespace, flowName, v1alpha1.ConditionReady)).ShouldNot(Equal("absent"))
		Expect(env.Client.Delete(ctx, getFlow(ctx, namespace, flowName))).To(Succeed())
		Eventually(flowGone(ctx, namespace)).Should(BeTrue())
	})

	It("of a pool drains its workers first", func(ctx SpecContext) {
		namespace, n := readyPool(ctx, 2)
		pods := workers(ctx, namespace, poolName)
		n.worker(pods[0]).run(1)
		Expect(env.Client.Delete(ctx, getPool(ctx, namespace, poolName))).To(Succeed())
		Eventually(func() []string { return uids(workers(ctx, namespace, poolName)) }).Should(Equal(uids(pods[:1])))
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionReady)).Should(Equal("False/Deleting"))
		n.worker(pods[0]).run(0)
		Eventually(poolGone(ctx, namespace)).Should(BeTrue())
		Expect(workers(ctx, namespace, poolName)).To(BeEmpty())
	})

	It("ends with the flow first, whatever the workers do", func(ctx SpecContext) {
		namespace, n := readyPool(ctx, 1)
		n.worker(workers(ctx, namespace, poolName)[0]).run(1)
		Expect(env.Client.Delete(ctx, getFlow(ctx, namespace, flowName))).To(Succeed())
		Eventually(flowGone(ctx, namespace)).Should(BeTrue())
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionFlowAccepted)).Should(Equal("False/FlowNotFound"))
		Expect(env.Client.Delete(ctx, getPool(ctx, namespace, poolName))).To(Succeed())
		Eventually(poolGone(ctx, namespace)).Should(BeTrue())
	})

	It("of a namespace ends, with jobs in the queue and busy workers", func(ctx SpecContext) {
		namespace, n := readyPool(ctx, 2)
		editFlow(ctx, namespace, func(f *v1alpha1.WorkPullingFlow) { f.Spec.DeletionPolicy = v1alpha1.DeletionDrain })
		p := newProducer(ctx, namespace, flowName)
		p.set(func(s *protocolv1.FlowStats) { s.BacklogJobs = 5 })
		n.worker(workers(ctx, namespace, poolName)[0]).run(1)
		Eventually(func() *int64 { return getFlow(ctx, namespace, flowName).Status.Backlog }).Should(HaveValue(Equal(int64(5))))
		Expect(env.DeleteNamespace(ctx, namespace)).To(Succeed())
		Eventually(exists(ctx, &corev1.Namespace{ObjectMeta: named("", namespace)})).WithTimeout(60 * second).Should(BeFalse())
		Eventually(func(g Gomega) {
			var events corev1.EventList
			g.Expect(env.Client.List(ctx, &events, client.InNamespace("default"))).To(Succeed())
			g.Expect(events.Items).To(ContainElement(And(
				HaveField("InvolvedObject.Name", namespace), HaveField("Reason", "Released"), HaveField("Message", ContainSubstring("orders")))))
		}).Should(Succeed())
	})
})
