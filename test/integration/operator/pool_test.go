//go:build integration

package operator

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/test/builders"
)

const (
	flowName = "orders"
	poolName = "packers"
)

// scale writes the scale subresource, as kubectl scale and an autoscaler do.
func scale(ctx SpecContext, namespace string, replicas int32) {
	GinkgoHelper()
	pool := getPool(ctx, namespace, poolName)
	body := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	Expect(env.Client.SubResource("scale").Update(ctx, pool, client.WithSubResourceBody(body))).To(Succeed())
}

func observedScale(ctx SpecContext, namespace string) autoscalingv1.Scale {
	GinkgoHelper()
	body := autoscalingv1.Scale{}
	Expect(env.Client.SubResource("scale").Get(ctx, getPool(ctx, namespace, poolName), &body)).To(Succeed())
	return body
}

// readyPool makes a flow and a pool of n ready workers.
func readyPool(ctx SpecContext, replicas int32) (string, *node) {
	GinkgoHelper()
	namespace := newNamespace(ctx)
	n := newNode(namespace)
	Expect(env.Client.Create(ctx, builders.MakeFlow(flowName, namespace).Memory().DeletionPolicy(v1alpha1.DeletionDiscard).Obj())).To(Succeed())
	pool := builders.MakePool(poolName, namespace, flowName).Obj()
	pool.Spec.Replicas = ptr.To(replicas)
	pool.Spec.Drain.TimeoutSeconds = 5
	Expect(env.Client.Create(ctx, pool)).To(Succeed())
	if replicas > 0 {
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionReady)).Should(Equal("True/WorkersReady"))
	}
	return namespace, n
}

var _ = Describe("A pool", func() {
	It("says that no worker can be made of a new template, and keeps the old workers", func(ctx SpecContext) {
		namespace, _ := readyPool(ctx, 1)
		before := uids(workers(ctx, namespace, poolName))
		edit(ctx, namespace, poolName, func(p *v1alpha1.WorkerPool) {
			p.Spec.Template.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/bye", Port: intstr.FromString("admin")},
			}}
		})
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionProgressing)).Should(Equal("False/TemplateInvalid"))
		Expect(uids(workers(ctx, namespace, poolName))).To(Equal(before))
		Expect(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionReady)()).To(Equal("True/WorkersReady"))
		edit(ctx, namespace, poolName, func(p *v1alpha1.WorkerPool) {
			p.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "admin", ContainerPort: 8081}}
		})
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionProgressing)).WithTimeout(60 * second).Should(Equal("False/Stable"))
		Expect(uids(workers(ctx, namespace, poolName))).NotTo(Equal(before))
	})

	It("says that the pods of a new template cannot start, and goes on when they can", func(ctx SpecContext) {
		namespace, _ := readyPool(ctx, 1)
		before := uids(workers(ctx, namespace, poolName))
		edit(ctx, namespace, poolName, func(p *v1alpha1.WorkerPool) {
			p.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "api-key"}, Key: "key",
			}}}}
		})
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionProgressing)).Should(Equal("False/PodConfigInvalid"))
		pool := getPool(ctx, namespace, poolName)
		Expect(condition(pool.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True/WorkersReady"))
		for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionProgressing} {
			Expect(meta.FindStatusCondition(pool.Status.Conditions, kind).Message).To(ContainSubstring(`"api-key" not found`))
		}
		Expect(uids(workers(ctx, namespace, poolName))).To(ContainElements(before))
		Expect(env.Client.Create(ctx, &corev1.Secret{ObjectMeta: named(namespace, "api-key"), StringData: map[string]string{"key": "x"}})).To(Succeed())
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionProgressing)).WithTimeout(60 * second).Should(Equal("False/Stable"))
		Expect(uids(workers(ctx, namespace, poolName))).NotTo(Equal(before))
	})

	It("makes its workers, and then writes nothing more", func(ctx SpecContext) {
		namespace, _ := readyPool(ctx, 3)
		Expect(workers(ctx, namespace, poolName)).To(HaveLen(3))
		pool := getPool(ctx, namespace, poolName)
		Expect(pool.Status.Replicas).To(HaveValue(Equal(int32(3))))
		Expect(condition(pool.Status.Conditions, v1alpha1.ConditionFlowAccepted)).To(Equal("True/FlowFound"))
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionProgressing)).Should(Equal("False/Stable"))

		atRest := atRest(namespace)
		// A change that matters to no child wakes both reconcilers.
		edit(ctx, namespace, poolName, func(p *v1alpha1.WorkerPool) { p.Spec.Update.MaxSurge = ptr.To(intstr.FromInt32(2)) })
		Eventually(func() int64 { return getPool(ctx, namespace, poolName).Status.ObservedGeneration }).Should(Equal(getPool(ctx, namespace, poolName).Generation))
		Expect(writes.in(namespace)[len(atRest):]).To(ConsistOf(HaveSuffix("/workerpools/"+poolName+"/status")), "nothing but the observed generation")
	})

	It("follows the scale subresource, and selects exactly its live workers", func(ctx SpecContext) {
		namespace, _ := readyPool(ctx, 2)
		scale(ctx, namespace, 4)
		Eventually(func() int32 { return observedScale(ctx, namespace).Status.Replicas }).Should(Equal(int32(4)))
		selector, err := labels.Parse(observedScale(ctx, namespace).Status.Selector)
		Expect(err).NotTo(HaveOccurred())
		var selected corev1.PodList
		Expect(env.Client.List(ctx, &selected, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector})).To(Succeed())
		Expect(uids(selected.Items)).To(Equal(uids(workers(ctx, namespace, poolName))))
		scale(ctx, namespace, 0)
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionReady)).Should(Equal("True/ScaledToZero"))
		Eventually(func() []corev1.Pod { return workers(ctx, namespace, poolName) }).Should(BeEmpty())
	})

	It("lets busy workers finish and takes the idle ones", func(ctx SpecContext) {
		namespace, n := readyPool(ctx, 3)
		pods := workers(ctx, namespace, poolName)
		n.worker(pods[0]).run(1)
		n.worker(pods[2]).run(2)
		scale(ctx, namespace, 2)
		Eventually(func() []string { return uids(workers(ctx, namespace, poolName)) }).Should(Equal(uids([]corev1.Pod{pods[0], pods[2]})), "the idle one goes")

		scale(ctx, namespace, 1)
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionDrained)).Should(Equal("False/WorkersDraining"))
		Eventually(func() int32 { return observedScale(ctx, namespace).Status.Replicas }).Should(Equal(int32(1)), "a draining worker does not count")
		Expect(workers(ctx, namespace, poolName)).To(HaveLen(2), "a busy worker is not deleted")
		n.worker(pods[0]).run(0)
		Eventually(func() []string { return uids(workers(ctx, namespace, poolName)) }).Should(Equal(uids(pods[2:])))
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionDrained)).Should(Equal("True/NothingDraining"))
	})

	It("takes a draining worker back when more are wanted again", func(ctx SpecContext) {
		namespace, n := readyPool(ctx, 2)
		pods := workers(ctx, namespace, poolName)
		n.worker(pods[0]).run(1)
		n.worker(pods[1]).run(1)
		scale(ctx, namespace, 1)
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionDrained)).Should(Equal("False/WorkersDraining"))
		scale(ctx, namespace, 2)
		Eventually(func() int32 { return observedScale(ctx, namespace).Status.Replicas }).Should(Equal(int32(2)))
		Expect(uids(workers(ctx, namespace, poolName))).To(Equal(uids(pods)), "no new pod was needed")
		for _, pod := range pods {
			Expect(n.worker(pod).describe().Draining).To(BeFalse())
		}
	})

	It("deletes a worker that does not finish in time", func(ctx SpecContext) {
		namespace, n := readyPool(ctx, 1)
		n.worker(workers(ctx, namespace, poolName)[0]).run(1)
		scale(ctx, namespace, 0)
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionDrained)).Should(Equal("False/WorkersDraining"))
		Eventually(func() []corev1.Pod { return workers(ctx, namespace, poolName) }).Should(BeEmpty())
	})

	It("replaces workers that failed or were evicted", func(ctx SpecContext) {
		namespace, _ := readyPool(ctx, 2)
		pods := workers(ctx, namespace, poolName)
		evicted := pods[0].DeepCopy()
		evicted.Status.Phase, evicted.Status.Reason, evicted.Status.Message = corev1.PodFailed, "Evicted", "the node was low on memory"
		Expect(env.Client.Status().Update(ctx, evicted)).To(Succeed())
		Expect(env.Client.Delete(ctx, &pods[1])).To(Succeed())
		Eventually(func(g Gomega) {
			now := workers(ctx, namespace, poolName)
			g.Expect(now).To(HaveLen(2))
			g.Expect(uids(now)).NotTo(ContainElement(BeElementOf(uids(pods))))
		}).Should(Succeed())
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionReady)).Should(Equal("True/WorkersReady"))
		Eventually(func(g Gomega) {
			var list corev1.EventList
			g.Expect(env.Client.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
			g.Expect(list.Items).To(ContainElement(HaveField("Message", ContainSubstring("the node was low on memory"))))
		}).Should(Succeed())
	})

	It("rolls a new template out, and nothing else", func(ctx SpecContext) {
		namespace, n := readyPool(ctx, 3)
		before := workers(ctx, namespace, poolName)
		edit(ctx, namespace, poolName, func(p *v1alpha1.WorkerPool) {
			p.Spec.FlowControlWindow, p.Spec.Drain.TimeoutSeconds, p.Spec.Concurrency = 7, 6, 2
			p.Spec.ResendIntervalMilliseconds = 500
			p.Spec.Runtime.Resources = corev1.ResourceRequirements{}
		})
		Eventually(func() string {
			var config corev1.ConfigMap
			Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "packers-worker.orders"}, &config)).To(Succeed())
			return config.Data["config.json"]
		}).Should(ContainSubstring(`"flowControlWindow": 7`))
		Consistently(func() []string { return uids(workers(ctx, namespace, poolName)) }).WithTimeout(time.Second).Should(Equal(uids(before)))

		n.worker(before[0]).run(1)
		edit(ctx, namespace, poolName, func(p *v1alpha1.WorkerPool) { p.Spec.Template.Spec.Containers[0].Image = "example.test/app:2" })
		Eventually(func() int { return len(workers(ctx, namespace, poolName)) }).Should(BeNumerically(">=", 3))
		Eventually(func() []string { return uids(workers(ctx, namespace, poolName)) }).ShouldNot(ContainElement(string(before[1].UID)))
		Expect(uids(workers(ctx, namespace, poolName))).To(ContainElement(string(before[0].UID)), "the busy one finishes first")
		n.worker(before[0]).run(0)
		Eventually(func() []string { return uids(workers(ctx, namespace, poolName)) }).ShouldNot(ContainElement(BeElementOf(uids(before))))
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionProgressing)).Should(Equal("False/Stable"))
		pool := getPool(ctx, namespace, poolName)
		Expect(pool.Status.CurrentRevision).To(Equal(pool.Status.UpdateRevision))
	})

	It("makes no workers before the flow exists, and says so", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		Expect(env.Client.Create(ctx, builders.MakePool(poolName, namespace, flowName).Obj())).To(Succeed())
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionFlowAccepted)).Should(Equal("False/FlowNotFound"))
		Expect(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionReady)()).To(Equal("False/FlowNotFound"))
		Expect(workers(ctx, namespace, poolName)).To(BeEmpty())
		Expect(env.Client.Create(ctx, builders.MakeFlow(flowName, namespace).Memory().DeletionPolicy(v1alpha1.DeletionDiscard).Obj())).To(Succeed())
		Eventually(func() []corev1.Pod { return workers(ctx, namespace, poolName) }).Should(HaveLen(1))
	})
})
