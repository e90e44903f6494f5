//go:build integration

package operator

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/test/builders"
)

// servingFlow makes a flow whose producer reports.
func servingFlow(ctx SpecContext, change func(*v1alpha1.WorkPullingFlow)) (string, *producer) {
	GinkgoHelper()
	namespace := newNamespace(ctx)
	newNode(namespace)
	flow := builders.MakeFlow(flowName, namespace).Memory().Obj()
	if change != nil {
		change(flow)
	}
	Expect(env.Client.Create(ctx, flow)).To(Succeed())
	p := newProducer(ctx, namespace, flowName)
	Eventually(flowCondition(ctx, namespace, flowName, v1alpha1.ConditionReady)).Should(Equal("True/Serving"))
	return namespace, p
}

// childrenOf are all objects that a flow has.
func childrenOf(namespace string) []client.Object {
	return []client.Object{
		&appsv1.StatefulSet{ObjectMeta: named(namespace, "orders-producer")},
		&corev1.Service{ObjectMeta: named(namespace, "orders-producer")},
		&corev1.Service{ObjectMeta: named(namespace, "orders-intake")},
		&corev1.ConfigMap{ObjectMeta: named(namespace, "orders-producer")},
		&corev1.ConfigMap{ObjectMeta: named(namespace, "workpulling-ca")},
		&corev1.Secret{ObjectMeta: named(namespace, "workpulling-tls")},
		&corev1.ServiceAccount{ObjectMeta: named(namespace, "orders-producer")},
		&rbacv1.Role{ObjectMeta: named(namespace, "orders-producer")},
		&rbacv1.RoleBinding{ObjectMeta: named(namespace, "orders-producer")},
		&rbacv1.ClusterRoleBinding{ObjectMeta: named("", "workpulling:"+namespace+":orders")},
	}
}

var _ = Describe("A flow", func() {
	It("makes its producer, shows what that reports, and then writes nothing more", func(ctx SpecContext) {
		namespace, p := servingFlow(ctx, nil)
		for _, child := range childrenOf(namespace) {
			Expect(exists(ctx, child)()).To(BeTrue(), "%T %s", child, child.GetName())
		}
		p.set(func(s *protocolv1.FlowStats) { s.BacklogJobs, s.InFlight, s.DeadLetters = 7, 2, 1 })
		Eventually(flowCondition(ctx, namespace, flowName, v1alpha1.ConditionHasDeadLetters)).Should(Equal("True/JobsDeadLettered"))
		flow := getFlow(ctx, namespace, flowName)
		Expect(flow.Status.Backlog).To(HaveValue(Equal(int64(7))))
		Expect(flow.Status.InFlight).To(HaveValue(Equal(int64(2))))
		Expect(flow.Status.IntakeURL).To(Equal("https://orders-intake." + namespace + ".svc/v1/flows/orders/jobs"))
		Expect(condition(flow.Status.Conditions, v1alpha1.ConditionWorkersBound)).To(Equal("False/NoPool"))

		before := atRest(namespace)
		p.set(func(s *protocolv1.FlowStats) { s.AcceptedTotal, s.ConfirmedTotal = 900, 900 })
		Consistently(func() int { return len(writes.in(namespace)) }).WithTimeout(2 * second).Should(Equal(len(before)))
	})

	It("counts the jobs that a Memory queue lost with its pod", func(ctx SpecContext) {
		namespace, p := servingFlow(ctx, func(f *v1alpha1.WorkPullingFlow) { f.Spec.DeletionPolicy = v1alpha1.DeletionDiscard })
		lost := func() *int64 { return getFlow(ctx, namespace, flowName).Status.LostJobs }
		Expect(lost()).To(HaveValue(BeZero()))
		p.set(func(s *protocolv1.FlowStats) { p.forgets, s.BacklogJobs, s.InFlight = true, 4, 2 })
		Eventually(func() *int64 { return getFlow(ctx, namespace, flowName).Status.Backlog }).WithTimeout(60 * second).Should(HaveValue(Equal(int64(4))))
		Expect(env.Client.Delete(ctx, &corev1.Pod{ObjectMeta: named(namespace, "orders-producer-0")})).To(Succeed())
		Eventually(lost).WithTimeout(60 * second).Should(HaveValue(Equal(int64(6))))
		Eventually(func() []string {
			var list eventsv1.EventList
			Expect(env.Client.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
			var notes []string
			for _, e := range list.Items {
				if e.Reason == "JobsLost" {
					notes = append(notes, e.Note)
				}
			}
			return notes
		}).Should(ConsistOf(ContainSubstring("lost 6 jobs")))
		Consistently(lost).WithTimeout(2 * second).Should(HaveValue(Equal(int64(6))))
	})

	It("changes a document and no pod when anything but the template is edited", func(ctx SpecContext) {
		namespace, _ := servingFlow(ctx, nil)
		set := &appsv1.StatefulSet{ObjectMeta: named(namespace, "orders-producer")}
		Expect(exists(ctx, set)()).To(BeTrue())
		generation := set.Generation
		editFlow(ctx, namespace, func(f *v1alpha1.WorkPullingFlow) {
			f.Spec.Redelivery.MaxAttempts, f.Spec.Liveness.HeartbeatSeconds = ptr.To[int32](3), 1
			f.Spec.Runtime.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
		})
		config := &corev1.ConfigMap{ObjectMeta: named(namespace, "orders-producer")}
		Eventually(func() string { exists(ctx, config)(); return config.Data["config.json"] }).Should(ContainSubstring(`"maxAttempts": 3`))
		pod := &corev1.Pod{ObjectMeta: named(namespace, "orders-producer-0")}
		Eventually(func() string { exists(ctx, pod)(); return pod.Annotations[v1alpha1.AnnotationConfiguration] }).
			Should(Equal(runtimeconfig.Hash([]byte(config.Data["config.json"]))), "kubelet is told to look")
		Eventually(func() int64 { return getFlow(ctx, namespace, flowName).Status.ObservedGeneration }).Should(BeNumerically(">", 1))
		Expect(exists(ctx, set)()).To(BeTrue())
		Expect(set.Generation).To(Equal(generation))
		Eventually(func() string {
			return meta.FindStatusCondition(getFlow(ctx, namespace, flowName).Status.Conditions, v1alpha1.ConditionProducerAvailable).Message
		}).Should(ContainSubstring("set spec.runtime.updatePolicy to Rolling"), "an edit that waits is visible")
		editFlow(ctx, namespace, func(f *v1alpha1.WorkPullingFlow) { f.Spec.Suspend = v1alpha1.SwitchEnabled })
		Eventually(flowCondition(ctx, namespace, flowName, v1alpha1.ConditionReady)).Should(Equal("False/Suspended"))
	})

	It("is suspended, and goes on, when its producer says so", func(ctx SpecContext) {
		namespace, p := servingFlow(ctx, nil)
		ready := func() string {
			c := meta.FindStatusCondition(getFlow(ctx, namespace, flowName).Status.Conditions, v1alpha1.ConditionReady)
			return c.Reason + ": " + c.Message
		}
		for _, step := range []struct {
			to             v1alpha1.Switch
			waiting, after string
		}{
			{v1alpha1.SwitchEnabled, "Serving: suspending: ", "Suspended: spec.suspend is Enabled"},
			{v1alpha1.SwitchDisabled, "Suspended: resuming: ", "Serving: "},
		} {
			p.takes(false)
			editFlow(ctx, namespace, func(f *v1alpha1.WorkPullingFlow) { f.Spec.Suspend = step.to })
			Eventually(ready).Should(HavePrefix(step.waiting))
			Consistently(ready).WithTimeout(second).Should(HavePrefix(step.waiting))
			p.takes(true)
			Eventually(ready).Should(And(HavePrefix(step.after), Not(ContainSubstring("not taken"))))
		}
	})

	It("repairs every child that is deleted or changed", func(ctx SpecContext) {
		namespace, _ := servingFlow(ctx, nil)
		for _, child := range childrenOf(namespace) {
			Expect(exists(ctx, child)()).To(BeTrue())
			uid := child.GetUID()
			Expect(env.Client.Delete(ctx, child)).To(Succeed())
			Eventually(func() bool { return exists(ctx, child)() && child.GetUID() != uid }).Should(BeTrue(), "%T %s comes back", child, child.GetName())
		}
		set := &appsv1.StatefulSet{ObjectMeta: named(namespace, "orders-producer")}
		Expect(exists(ctx, set)()).To(BeTrue())
		image := set.Spec.Template.Spec.Containers[0].Image
		set.Spec.Template.Spec.Containers[0].Image, set.Spec.Replicas = "example.test/evil", ptr.To[int32](3)
		Expect(env.Client.Update(ctx, set)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(exists(ctx, set)()).To(BeTrue())
			g.Expect(set.Spec.Template.Spec.Containers[0].Image).To(Equal(image))
			g.Expect(set.Spec.Replicas).To(HaveValue(Equal(int32(1))))
		}).Should(Succeed())
		role := &rbacv1.Role{ObjectMeta: named(namespace, "orders-producer")}
		Expect(exists(ctx, role)()).To(BeTrue())
		role.Labels = nil
		rules := slices.Clone(role.Rules)
		role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}})
		Expect(env.Client.Update(ctx, role)).To(Succeed())
		Eventually(func() []rbacv1.PolicyRule { exists(ctx, role)(); return role.Rules }).Should(Equal(rules), "also where our label was taken off")
	})

	It("leaves an object of the same name alone that is someone else's", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		theirs := &corev1.Service{ObjectMeta: named(namespace, "orders-intake"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		Expect(env.Client.Create(ctx, theirs)).To(Succeed())
		Expect(env.Client.Create(ctx, builders.MakeFlow(flowName, namespace).Memory().Obj())).To(Succeed())
		Eventually(flowCondition(ctx, namespace, flowName, v1alpha1.ConditionReady)).Should(Equal("False/NameConflict"))
		Expect(exists(ctx, theirs)()).To(BeTrue())
		Expect(theirs.Spec.Ports[0].Port).To(Equal(int32(80)))
		Expect(env.Client.Delete(ctx, theirs)).To(Succeed())
		Eventually(flowCondition(ctx, namespace, flowName, v1alpha1.ConditionReady)).WithTimeout(60 * second).ShouldNot(Equal("False/NameConflict"))
	})

	It("tells of a quota that refuses its pods and those of its pool, without a storm of requests", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		newNode(namespace)
		quota := &corev1.ResourceQuota{ObjectMeta: named(namespace, "small"), Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("0")}}}
		Expect(env.Client.Create(ctx, quota)).To(Succeed())
		Eventually(func() bool { exists(ctx, quota)(); return len(quota.Status.Hard) > 0 }).Should(BeTrue())
		Expect(env.Client.Create(ctx, builders.MakeFlow(flowName, namespace).Memory().DeletionPolicy(v1alpha1.DeletionDiscard).Obj())).To(Succeed())
		Expect(env.Client.Create(ctx, builders.MakePool(poolName, namespace, flowName).Obj())).To(Succeed())
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionReady)).Should(Equal("False/QuotaExceeded"))
		Eventually(flowCondition(ctx, namespace, flowName, v1alpha1.ConditionReady)).Should(Equal("False/QuotaExceeded"))
		before := len(writes.in(namespace))
		Consistently(func() int { return len(writes.in(namespace)) - before }).WithTimeout(3 * second).Should(BeNumerically("<", 6))
		quota.Spec.Hard["pods"] = resource.MustParse("9")
		Expect(env.Client.Update(ctx, quota)).To(Succeed())
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionReady)).WithTimeout(60 * second).Should(Equal("True/WorkersReady"))
	})

	It("keeps its volume, and does not start on another one", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		newNode(namespace)
		Expect(env.Client.Create(ctx, builders.MakeFlow(flowName, namespace).Volume("64Mi", namespace).DeletionPolicy(v1alpha1.DeletionDiscard).Obj())).To(Succeed())
		Eventually(flowCondition(ctx, namespace, flowName, v1alpha1.ConditionQueueAvailable)).Should(Equal("False/VolumePending"))
		create(ctx, &corev1.PersistentVolume{ObjectMeta: named("", namespace), Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: namespace, PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		}})
		Eventually(func() string { return getFlow(ctx, namespace, flowName).Annotations["workpulling.dev/volume"] }).WithTimeout(60 * second).Should(HaveSuffix("/" + namespace))
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: named(namespace, "workpulling-data-orders-producer-0")}
		Eventually(func() bool { return exists(ctx, claim)() && len(claim.OwnerReferences) == 1 }).Should(BeTrue())
		Expect(claim.OwnerReferences[0].Kind).To(Equal(v1alpha1.KindWorkPullingFlow))

		set := &appsv1.StatefulSet{ObjectMeta: named(namespace, "orders-producer")}
		Expect(exists(ctx, set)()).To(BeTrue())
		Expect(env.Client.Delete(ctx, set)).To(Succeed())
		uid := set.UID
		Eventually(func() bool { return exists(ctx, set)() && set.UID != uid }).Should(BeTrue())
		claimUID := claim.UID
		Expect(exists(ctx, claim)()).To(BeTrue())
		Expect(claim.UID).To(Equal(claimUID), "the volume outlives the StatefulSet")

		before := claim.DeepCopy()
		claim.Finalizers = nil
		Expect(env.Client.Patch(ctx, claim, client.MergeFrom(before))).To(Succeed())
		Expect(env.Client.Delete(ctx, claim)).To(Succeed())
		Eventually(flowCondition(ctx, namespace, flowName, v1alpha1.ConditionReady)).Should(Equal("False/VolumeMissing"))
		Eventually(func() *int32 { exists(ctx, set)(); return set.Spec.Replicas }).Should(HaveValue(BeZero()))
	})
})

func editFlow(ctx SpecContext, namespace string, change func(*v1alpha1.WorkPullingFlow)) {
	GinkgoHelper()
	flow := getFlow(ctx, namespace, flowName)
	before := flow.DeepCopy()
	change(flow)
	Expect(env.Client.Patch(ctx, flow, client.MergeFrom(before))).To(Succeed())
}
