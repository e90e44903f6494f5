//go:build integration

package api

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/test/builders"
)

var _ = Describe("The kinds", func() {
	It("are in one category, with short names", func(ctx SpecContext) {
		server, err := discovery.NewDiscoveryClientForConfig(env.Config)
		Expect(err).NotTo(HaveOccurred())
		resources, err := server.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
		Expect(err).NotTo(HaveOccurred())

		shortNames := map[string][]string{}
		for _, resource := range resources.APIResources {
			if resource.Categories != nil {
				Expect(resource.Categories).To(ContainElement("workpulling"), resource.Name)
				shortNames[resource.Name] = resource.ShortNames
			}
		}
		Expect(shortNames).To(Equal(map[string][]string{
			"workpullingflows": {"wpf"},
			"workerpools":      {"wpool"},
		}))
	})

	It("keep every field of a pod template", func(ctx SpecContext) {
		pool := builders.MakePool("packers", newNamespace(ctx), "orders").Template(fullTemplate()).Obj()
		Expect(env.Client.Create(ctx, pool)).To(Succeed())
		stored := &v1alpha1.WorkerPool{}
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(pool), stored)).To(Succeed())
		Expect(stored.Spec.Template).To(BeComparableTo(fullTemplate()))
	})

	It("keep spec and status apart", func(ctx SpecContext) {
		flow := builders.MakeFlow("orders", newNamespace(ctx)).Obj()
		flow.Status.Backlog = ptr.To[int64](7)
		Expect(env.Client.Create(ctx, flow)).To(Succeed())
		Expect(flow.Status.Backlog).To(BeNil(), "a create must not set the status")

		flow.Status.Backlog = ptr.To[int64](0)
		flow.Spec.DeduplicationWindowSeconds = 7
		Expect(env.Client.Status().Update(ctx, flow)).To(Succeed())
		Expect(flow.Status.Backlog).To(HaveValue(BeZero()), "zero is not absent")
		Expect(flow.Spec.DeduplicationWindowSeconds).To(Equal(int32(600)), "a status update must not change the spec")
	})
})

var _ = Describe("The scale subresource of a pool", func() {
	It("reads the status and writes the spec", func(ctx SpecContext) {
		pool := builders.MakePool("packers", newNamespace(ctx), "orders").Replicas(3).Obj()
		Expect(env.Client.Create(ctx, pool)).To(Succeed())
		pool.Status.Replicas = ptr.To[int32](2)
		pool.Status.Selector = v1alpha1.LabelPoolUID + "=" + string(pool.UID)
		Expect(env.Client.Status().Update(ctx, pool)).To(Succeed())

		scale := &autoscalingv1.Scale{}
		Expect(env.Client.SubResource("scale").Get(ctx, pool, scale)).To(Succeed())
		Expect(scale.Spec.Replicas).To(Equal(int32(3)))
		Expect(scale.Status.Replicas).To(Equal(int32(2)))
		Expect(scale.Status.Selector).To(Equal(pool.Status.Selector))

		scale.Spec.Replicas = 5
		Expect(env.Client.SubResource("scale").Update(ctx, pool, client.WithSubResourceBody(scale))).To(Succeed())
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(pool), pool)).To(Succeed())
		Expect(pool.Spec.Replicas).To(HaveValue(Equal(int32(5))))
	})

	It("takes zero, and refuses more than the greatest pool", func(ctx SpecContext) {
		pool := builders.MakePool("packers", newNamespace(ctx), "orders").Obj()
		Expect(env.Client.Create(ctx, pool)).To(Succeed())
		Expect(scaleTo(ctx, pool, 0)).To(Succeed())
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(pool), pool)).To(Succeed())
		Expect(pool.Spec.Replicas).To(HaveValue(BeZero()))
		Expect(scaleTo(ctx, pool, 10001)).To(MatchError(ContainSubstring("less than or equal to 10000")))
	})
})

func scaleTo(ctx SpecContext, pool *v1alpha1.WorkerPool, replicas int32) error {
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	scale.Name, scale.Namespace = pool.Name, pool.Namespace
	return env.Client.SubResource("scale").Update(ctx, pool, client.WithSubResourceBody(scale))
}

// fullTemplate is a template that uses what a plain app does not.
func fullTemplate() corev1.PodTemplateSpec {
	template := builders.Template("example.test/app:v1")
	template.Labels = map[string]string{"app": "packer", "example.test/team": "eu"}
	template.Annotations = map[string]string{"example.test/note": "kept"}
	fillSpec(&template.Spec)
	return template
}
