//go:build integration

package api

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/workpulling/workpulling/test/integration/apicases"
)

var _ = Describe("Validation", Ordered, func() {
	var namespace string

	BeforeAll(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	for _, tc := range apicases.All() {
		It(verdict(tc)+" "+tc.Name, func(ctx SpecContext) {
			object := build(namespace, tc.Base, tc.Object)
			err := env.Client.Create(ctx, object)
			if err == nil {
				DeferCleanup(func(ctx SpecContext) { Expect(env.Client.Delete(ctx, object)).To(Succeed()) })
			}
			if len(tc.Update) > 0 {
				Expect(err).NotTo(HaveOccurred(), "before the update")
				changed := build(namespace, tc.Base, append(slices.Clone(tc.Object), tc.Update...))
				changed.SetResourceVersion(object.GetResourceVersion())
				err = env.Client.Update(ctx, changed)
			}
			if tc.Refused == "" {
				Expect(err).NotTo(HaveOccurred())
			} else {
				Expect(err).To(MatchError(ContainSubstring(tc.Refused)))
			}
		})
	}
})

func verdict(tc apicases.Case) string {
	if tc.Refused == "" {
		return "accepts"
	}
	return "refuses"
}

func build(namespace string, base apicases.Base, patches []string) *unstructured.Unstructured {
	GinkgoHelper()
	object, err := base.With(patches...)
	Expect(err).NotTo(HaveOccurred())
	object.SetNamespace(namespace)
	return object
}
