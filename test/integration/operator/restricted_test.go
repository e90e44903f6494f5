//go:build integration

package operator

import (
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/test/builders"
	"github.com/workpulling/workpulling/test/integration/environment"
)

// restrict makes the API server hold a namespace to the restricted Pod Security Standard.
func restrict(ctx SpecContext, name string) {
	GinkgoHelper()
	var namespace corev1.Namespace
	Expect(env.Client.Get(ctx, client.ObjectKey{Name: name}, &namespace)).To(Succeed())
	before := namespace.DeepCopy()
	namespace.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
	Expect(env.Client.Patch(ctx, &namespace, client.MergeFrom(before))).To(Succeed())
}

// restrictedTemplate is an app as the restricted standard wants it.
func restrictedTemplate() corev1.PodTemplateSpec {
	template := builders.Template("example.test/app")
	template.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), RunAsNonRoot: ptr.To(true),
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	return template
}

var _ = Describe("A namespace of the restricted Pod Security Standard", func() {
	It("takes every pod of ours, and refuses one that is not restricted", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		restrict(ctx, namespace)
		newNode(namespace)
		loose := &corev1.Pod{ObjectMeta: named(namespace, "loose"), Spec: builders.Template("example.test/app").Spec}
		Expect(apierrors.IsForbidden(env.Client.Create(ctx, loose, client.DryRunAll))).To(BeTrue(), "the namespace is held to the standard")

		Expect(env.Client.Create(ctx, builders.MakeFlow("orders", namespace).Memory().DeletionPolicy(v1alpha1.DeletionDiscard).Obj())).To(Succeed())
		Expect(env.Client.Create(ctx, builders.MakeFlow("invoices", namespace).PostgreSQL("db", 2).ProducerTemplate(restrictedTemplate()).
			DeletionPolicy(v1alpha1.DeletionDiscard).Obj())).To(Succeed())
		Expect(env.Client.Create(ctx, builders.MakePool("packers", namespace, "").Flows("orders", "invoices").Template(restrictedTemplate()).Obj())).To(Succeed())
		for _, name := range []string{"orders-producer-0", "invoices-producer-0", "invoices-producer-1"} {
			Eventually(exists(ctx, &corev1.Pod{ObjectMeta: named(namespace, name)})).Should(BeTrue(), name)
		}
		Eventually(func() []corev1.Pod { return workers(ctx, namespace, "packers") }).ShouldNot(BeEmpty())

		root, err := environment.RepositoryRoot()
		Expect(err).NotTo(HaveOccurred())
		objects, err := environment.ReadManifest(filepath.Join(root, "config", "manager", "deployment.yaml"))
		Expect(err).NotTo(HaveOccurred())
		var operator appsv1.Deployment
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(objects[0].Object, &operator)).To(Succeed())
		pod := &corev1.Pod{ObjectMeta: named(namespace, "operator"), Spec: operator.Spec.Template.Spec}
		pod.Spec.ServiceAccountName = "default"
		Expect(env.Client.Create(ctx, pod, client.DryRunAll)).To(Succeed())
	})
})
