//go:build integration

package operator

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/test/builders"
)

var _ = Describe("A pool of several flows", Label("flows"), func() {
	It("works as long as one of them is there, names the others, and rolls when the set changes", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		newNode(namespace)
		pool := builders.MakePool(poolName, namespace, "").Flows("returns", flowName).Obj()
		pool.Spec.Replicas = ptr.To[int32](1)
		pool.Spec.Drain.TimeoutSeconds = 5
		Expect(env.Client.Create(ctx, pool)).To(Succeed())
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionReady)).Should(Equal("False/FlowNotFound"))
		Expect(workers(ctx, namespace, poolName)).To(BeEmpty())

		flow := builders.MakeFlow(flowName, namespace).Memory().DeletionPolicy(v1alpha1.DeletionDiscard).Obj()
		Expect(env.Client.Create(ctx, flow)).To(Succeed())
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionReady)).WithTimeout(60 * second).Should(Equal("True/WorkersReady"))
		accepted := meta.FindStatusCondition(getPool(ctx, namespace, poolName).Status.Conditions, v1alpha1.ConditionFlowAccepted)
		Expect(accepted.Reason).To(Equal(v1alpha1.ReasonFlowNotFound))
		Expect(accepted.Message).To(And(ContainSubstring(`"returns"`), ContainSubstring("the workers pull from "+flowName)))

		Expect(env.Client.Create(ctx, builders.MakeFlow("returns", namespace).Memory().DeletionPolicy(v1alpha1.DeletionDiscard).Obj())).To(Succeed())
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionFlowAccepted)).Should(Equal("True/FlowFound"))
		before := workers(ctx, namespace, poolName)
		Expect(before).To(HaveLen(1), "a second flow that appears replaces nobody")
		Expect(before[0].Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationFlows, "orders,returns"))
		both := runtimeconfig.WorkerConfigName(poolName, flowName, "returns")
		Expect(readConfig(ctx, namespace, both)).To(Succeed())

		edit(ctx, namespace, poolName, func(p *v1alpha1.WorkerPool) { p.Spec.Flows = []string{flowName, "returns"} })
		Consistently(func() []corev1.Pod { return workers(ctx, namespace, poolName) }).WithTimeout(3*second).Should(HaveLen(1), "the order says nothing")
		Expect(uids(workers(ctx, namespace, poolName))).To(Equal(uids(before)))

		edit(ctx, namespace, poolName, func(p *v1alpha1.WorkerPool) { p.Spec.Flows = []string{flowName} })
		Eventually(func() []string { return uids(workers(ctx, namespace, poolName)) }).WithTimeout(60*second).
			Should(And(HaveLen(1), Not(ContainElement(uids(before)[0]))), "another set is another worker")
		Eventually(func() bool { return apierrors.IsNotFound(readConfig(ctx, namespace, both)) }).WithTimeout(60 * second).Should(BeTrue())
	})
})

func readConfig(ctx SpecContext, namespace, name string) error {
	return env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.ConfigMap{})
}
