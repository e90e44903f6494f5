//go:build integration

package operator

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// accountsOf are those that may keep a Lease as workers of the pool.
func accountsOf(ctx SpecContext, namespace string) func(g Gomega) []string {
	return func(g Gomega) (accounts []string) {
		key := client.ObjectKey{Namespace: namespace, Name: runtimeconfig.WorkerName(poolName)}
		var role rbacv1.Role
		var binding rbacv1.RoleBinding
		g.Expect(env.Client.Get(ctx, key, &role)).To(Succeed())
		g.Expect(env.Client.Get(ctx, key, &binding)).To(Succeed())
		g.Expect(binding.RoleRef.Name).To(Equal(role.Name))
		for _, subject := range binding.Subjects {
			g.Expect(subject.Namespace).To(Equal(namespace))
			accounts = append(accounts, subject.Name)
		}
		return accounts
	}
}

// leasesOf makes a Lease for every worker, as their sidecars do, each good for a time.
func leasesOf(ctx SpecContext, pods []corev1.Pod, good time.Duration) []*coordinationv1.Lease {
	GinkgoHelper()
	var leases []*coordinationv1.Lease
	for i := range pods {
		lease := &coordinationv1.Lease{}
		lease.Namespace, lease.Name = pods[i].Namespace, runtimeconfig.WorkerLeaseName(string(pods[i].UID))
		lease.Labels = map[string]string{v1alpha1.LabelRole: v1alpha1.RoleWorker, runtimeconfig.LabelManagedBy: runtimeconfig.ManagedByWorker}
		lease.Spec = coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(string(pods[i].UID) + "/boot"), LeaseTransitions: ptr.To[int32](1),
			LeaseDurationSeconds: ptr.To(int32(good / time.Second)),
		}
		Expect(env.Client.Create(ctx, lease)).To(Succeed())
		leases = append(leases, lease)
	}
	return leases
}

func renew(ctx SpecContext, leases ...*coordinationv1.Lease) {
	GinkgoHelper()
	for _, lease := range leases {
		before := lease.DeepCopy()
		lease.Spec.LeaseTransitions = ptr.To(*lease.Spec.LeaseTransitions + 1)
		Expect(env.Client.Patch(ctx, lease, client.MergeFrom(before))).To(Succeed())
	}
}

var _ = Describe("The Leases of workers", func() {
	It("may be kept by the accounts of the pool's workers, the older ones included", func(ctx SpecContext) {
		namespace, _ := readyPool(ctx, 1)
		Eventually(accountsOf(ctx, namespace)).Should(Equal([]string{"default"}))
		before := uids(workers(ctx, namespace, poolName))
		for _, w := range workers(ctx, namespace, poolName) {
			Expect(w.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationLease, v1alpha1.LeaseRequired))
		}
		Expect(env.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: named(namespace, "packer")})).To(Succeed())
		edit(ctx, namespace, poolName, func(p *v1alpha1.WorkerPool) { p.Spec.Template.Spec.ServiceAccountName = "packer" })
		Eventually(accountsOf(ctx, namespace)).Should(ContainElement("packer"))
		Eventually(accountsOf(ctx, namespace)).Should(Equal([]string{"packer"}))
		Expect(uids(workers(ctx, namespace, poolName))).NotTo(ContainElement(BeElementOf(before)), "an account lost its rights while its workers lived")

		By("repairing the rights")
		role := &rbacv1.Role{ObjectMeta: named(namespace, runtimeconfig.WorkerName(poolName))}
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(role), role)).To(Succeed())
		whole := role.Rules
		role.Rules = nil
		Expect(env.Client.Update(ctx, role)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(role), role)).To(Succeed())
			g.Expect(role.Rules).To(Equal(whole))
		}).Should(Succeed())
	})

	It("replace a worker that neither renews nor is bound, and nobody when all stop at once", func(ctx SpecContext) {
		namespace, _ := readyPool(ctx, 2)
		p := newProducer(ctx, namespace, flowName)
		pods := workers(ctx, namespace, poolName)
		bound := func(pods ...corev1.Pod) {
			p.set(func(s *protocolv1.FlowStats) {
				s.Workers = nil
				for i := range pods {
					s.Workers = append(s.Workers, &protocolv1.BoundWorker{PodUid: string(pods[i].UID), PodName: pods[i].Name, Pool: poolName})
				}
			})
		}
		bound(pods...)
		leases := leasesOf(ctx, pods, 2*time.Second)
		looks := int32(5)
		look := func(renewed ...*coordinationv1.Lease) []string { // an edit makes the operator look
			renew(ctx, renewed...)
			looks = 11 - looks
			edit(ctx, namespace, poolName, func(p *v1alpha1.WorkerPool) { p.Spec.Drain.TimeoutSeconds = looks })
			return uids(workers(ctx, namespace, poolName))
		}
		both := uids(pods)
		Consistently(func() []string { return look(leases[0]) }).WithTimeout(8*time.Second).WithPolling(500*time.Millisecond).
			Should(Equal(both), "a worker with a binding was replaced")
		bound(pods[0])
		Eventually(func() []string { return look(leases[0]) }).WithPolling(500 * time.Millisecond).
			Should(And(HaveLen(2), ContainElement(string(pods[0].UID)), Not(ContainElement(string(pods[1].UID)))))

		By("all of them at once")
		now := workers(ctx, namespace, poolName)
		bound()
		second := now[0]
		if second.UID == pods[0].UID {
			second = now[1]
		}
		leases = append(leases[:1], leasesOf(ctx, []corev1.Pod{second}, 2*time.Second)...)
		Expect(look(leases...)).To(Equal(uids(now)))
		Consistently(func() []string { return look() }).WithTimeout(10*time.Second).WithPolling(500*time.Millisecond).
			Should(Equal(uids(now)), "workers were replaced though no Lease at all was renewed")
	})
})
