//go:build integration

package operator

import (
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/networkpolicy"
	"github.com/workpulling/workpulling/test/builders"
	"github.com/workpulling/workpulling/test/integration/environment"
)

// withPolicies runs an operator that makes NetworkPolicies, for the length of the spec.
func withPolicies() networkpolicy.Settings {
	GinkgoHelper()
	options := operatorOptions()
	options.NetworkPolicies, options.Scrapers = true, networkpolicy.SameNamespace()
	replaceOperatorBy(rest.CopyConfig(operatorConfig), options)
	return networkpolicy.Settings{
		Enabled: true, OperatorNamespace: home, OperatorPods: options.Pods,
		Submitters: options.Submitters, Scrapers: options.Scrapers, AppPorts: options.AppPorts,
	}
}

func policyNamed(namespace, name string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: named(namespace, name)}
}

var _ = Describe("NetworkPolicies", func() {
	It("are made before the pods, stay as they are, are repaired, and go when they are switched off", Serial, func(ctx SpecContext) {
		settings := withPolicies()
		namespace, _ := readyPool(ctx, 1)
		flow, pool := getFlow(ctx, namespace, flowName), getPool(ctx, namespace, poolName)
		wanted := []*networkingv1.NetworkPolicy{networkpolicy.Producer(flow, settings), networkpolicy.Workers(pool, settings)}
		for _, want := range wanted {
			got := policyNamed(namespace, want.Name)
			Eventually(exists(ctx, got)).Should(BeTrue())
			Expect(got.Spec).To(BeComparableTo(want.Spec), "what the API server stores is what was planned")
			Expect(got.OwnerReferences).To(HaveLen(1))
		}
		closed := policyNamed(namespace, "packers-worker")
		Expect(exists(ctx, closed)()).To(BeTrue())
		for _, w := range workers(ctx, namespace, poolName) {
			Expect(closed.CreationTimestamp.After(w.CreationTimestamp.Time)).To(BeFalse())
		}
		before := atRest(namespace)
		edit(ctx, namespace, poolName, func(p *v1alpha1.WorkerPool) { p.Spec.FlowControlWindow = 7 })
		Eventually(func() int64 { return getPool(ctx, namespace, poolName).Status.ObservedGeneration }).Should(BeNumerically(">", pool.Generation))
		for _, write := range atRest(namespace)[len(before):] {
			Expect(write).NotTo(ContainSubstring("networkpolicies"))
		}

		for _, want := range wanted {
			got := policyNamed(namespace, want.Name)
			Expect(exists(ctx, got)()).To(BeTrue())
			uid := got.UID
			got.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
			Expect(env.Client.Update(ctx, got)).To(Succeed())
			Eventually(func(g Gomega) {
				g.Expect(exists(ctx, got)()).To(BeTrue())
				g.Expect(got.Spec).To(BeComparableTo(want.Spec))
			}).Should(Succeed())
			Expect(env.Client.Delete(ctx, got)).To(Succeed())
			Eventually(func() bool { return exists(ctx, got)() && got.UID != uid }).Should(BeTrue())
		}

		replaceOperatorBy(rest.CopyConfig(operatorConfig), operatorOptions())
		for _, want := range wanted {
			Eventually(exists(ctx, policyNamed(namespace, want.Name))).Should(BeFalse())
		}
	})

	It("that are refused keep new pods away and are told of", Serial, func(ctx SpecContext) {
		namespace, _ := readyPool(ctx, 1)
		quota := &corev1.ResourceQuota{ObjectMeta: named(namespace, "none"), Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{"count/networkpolicies.networking.k8s.io": resource.MustParse("0")},
		}}
		Expect(env.Client.Create(ctx, quota)).To(Succeed())
		Eventually(func() bool { exists(ctx, quota)(); return len(quota.Status.Hard) > 0 }).Should(BeTrue())
		withPolicies()
		Eventually(flowCondition(ctx, namespace, flowName, v1alpha1.ConditionReady)).Should(Equal("False/NetworkPolicyRefused"))
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionProgressing)).Should(Equal("False/NetworkPolicyRefused"))
		Expect(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionReady)()).To(Equal("True/WorkersReady"), "the worker that is there goes on")
		Eventually(func() []string {
			var list eventsv1.EventList
			Expect(env.Client.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
			var about []string
			for _, e := range list.Items {
				if e.Reason == v1alpha1.ReasonNetworkPolicyRefused {
					about = append(about, e.Regarding.Kind)
				}
			}
			return about
		}).Should(ContainElement(v1alpha1.KindWorkerPool))
		scale(ctx, namespace, 2)
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionReady)).Should(Equal("False/NetworkPolicyRefused"))
		Expect(workers(ctx, namespace, poolName)).To(HaveLen(1))
		Expect(env.Client.Delete(ctx, quota)).To(Succeed())
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionReady)).Should(Equal("True/WorkersReady"))
		Expect(exists(ctx, policyNamed(namespace, "packers-worker"))()).To(BeTrue())
	})

	It("include one for the operator, which the API server takes", func(ctx SpecContext) {
		root, err := environment.RepositoryRoot()
		Expect(err).NotTo(HaveOccurred())
		objects, err := environment.ReadManifest(filepath.Join(root, "config", "networkpolicy", "operator.yaml"))
		Expect(err).NotTo(HaveOccurred())
		Expect(objects).To(HaveLen(1))
		objects[0].SetNamespace(newNamespace(ctx))
		Expect(env.Client.Create(ctx, objects[0])).To(Succeed())
	})

	It("go with their flow and pool, and leave one of the same name alone", Serial, func(ctx SpecContext) {
		withPolicies()
		namespace := newNamespace(ctx)
		newNode(namespace)
		theirs := policyNamed(namespace, "packers-worker")
		theirs.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		Expect(env.Client.Create(ctx, theirs)).To(Succeed())
		Expect(env.Client.Create(ctx, builders.MakeFlow(flowName, namespace).Memory().DeletionPolicy(v1alpha1.DeletionDiscard).Obj())).To(Succeed())
		Expect(env.Client.Create(ctx, builders.MakePool(poolName, namespace, flowName).Obj())).To(Succeed())
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionReady)).Should(Equal("False/NameConflict"))
		Eventually(exists(ctx, policyNamed(namespace, "orders-producer"))).Should(BeTrue())
		Expect(env.Client.Delete(ctx, getPool(ctx, namespace, poolName))).To(Succeed())
		Expect(env.Client.Delete(ctx, getFlow(ctx, namespace, flowName))).To(Succeed())
		Eventually(exists(ctx, policyNamed(namespace, "orders-producer"))).Should(BeFalse())
		Expect(exists(ctx, theirs)()).To(BeTrue())
		Expect(theirs.Spec.Ingress).To(BeEmpty())
	})
})
