//go:build integration

package operator

import (
	"context"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/test/integration/environment"
)

var _ = Describe("The samples", func() {
	It("come to rest, and a second reconcile of all of them writes nothing", func(ctx SpecContext) {
		var namespaces []string
		for _, objects := range ourSamples() {
			namespace := newNamespace(ctx)
			namespaces = append(namespaces, namespace)
			newNode(namespace)
			for _, object := range objects {
				apply(ctx, namespace, object)
			}
			for _, object := range objects {
				Eventually(noticed(ctx, object)).WithTimeout(60 * second).Should(BeTrue())
			}
		}
		for _, namespace := range namespaces {
			if refusesPods(namespace) {
				// The producer and the workers ask for the same room; whoever comes late is refused.
				Eventually(flowReasons(ctx, namespace)).WithTimeout(60 * second).Should(HaveEach(BeElementOf("False/QuotaExceeded", "Unknown/ProducerSilent")))
			}
		}
		before := stored(namespaces)
		// An operator that starts reconciles everything once more.
		replaceOperator(func(c *rest.Config) *rest.Config { return c }, "")
		after := stored(namespaces)
		for _, namespace := range namespaces {
			Expect(after[namespace]).To(Equal(before[namespace]), namespace)
		}
	})
})

// ourSamples returns the objects of each file of samples, mistakes included, that has a flow or a pool which the API accepts.
func ourSamples() map[string][]*unstructured.Unstructured {
	GinkgoHelper()
	root, err := environment.RepositoryRoot()
	Expect(err).NotTo(HaveOccurred())
	samples := map[string][]*unstructured.Unstructured{}
	Expect(filepath.WalkDir(filepath.Join(root, "config", "samples"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") || strings.HasPrefix(entry.Name(), "invalid-") || entry.Name() == "kustomization.yaml" {
			return err
		}
		objects, err := environment.ReadManifest(path)
		for _, object := range objects {
			if object.GroupVersionKind().Group == v1alpha1.GroupVersion.Group {
				samples[path] = objects
			}
		}
		return err
	})).To(Succeed())
	Expect(len(samples)).To(BeNumerically(">=", 3), "there are samples of flows and pools")
	return samples
}

// stored waits until nothing more is written to any of the namespaces and returns what was, by namespace. A pod that the API server
// refuses is asked for again and again, more and more rarely; that stores nothing.
func stored(namespaces []string) map[string][]string {
	GinkgoHelper()
	list := func() map[string][]string {
		all := map[string][]string{}
		for _, namespace := range namespaces {
			all[namespace] = slices.DeleteFunc(writes.in(namespace), func(w string) bool {
				return w == "POST /api/v1/namespaces/"+namespace+"/pods" && refusesPods(namespace)
			})
		}
		return all
	}
	var before map[string][]string
	Eventually(func() bool {
		now := list()
		same := before != nil && maps.EqualFunc(now, before, slices.Equal)
		before = now
		return same
	}).WithPolling(2 * second).Should(BeTrue())
	return before
}

// flowReasons lists the Ready conditions of the flows of a namespace.
func flowReasons(ctx context.Context, namespace string) func() []string {
	return func() []string {
		var flows v1alpha1.WorkPullingFlowList
		Expect(env.Client.List(ctx, &flows, client.InNamespace(namespace))).To(Succeed())
		var reasons []string
		for _, flow := range flows.Items {
			reasons = append(reasons, condition(flow.Status.Conditions, v1alpha1.ConditionReady))
		}
		return reasons
	}
}

// refusesPods reports whether a quota holds pods of a namespace back.
func refusesPods(namespace string) bool {
	var quotas corev1.ResourceQuotaList
	return env.Client.List(context.Background(), &quotas, client.InNamespace(namespace)) == nil && len(quotas.Items) > 0
}

// noticed reports whether the operator has written the status of an object, if it is one of ours.
func noticed(ctx SpecContext, object *unstructured.Unstructured) func() bool {
	return func() bool {
		if object.GroupVersionKind().Group != v1alpha1.GroupVersion.Group {
			return true
		}
		if env.Client.Get(ctx, client.ObjectKeyFromObject(object), object) != nil {
			return false
		}
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		return len(conditions) > 0
	}
}

// apply creates an object in our namespace, where its kind has one; a Namespace of its own it does not get.
func apply(ctx SpecContext, namespace string, object *unstructured.Unstructured) {
	GinkgoHelper()
	if object.GetKind() == "Namespace" {
		return
	}
	kind := object.GroupVersionKind()
	mapping, err := env.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	Expect(err).NotTo(HaveOccurred())
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		object.SetNamespace(namespace)
	}
	Expect(env.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("samples"))).To(Succeed())
}
