//go:build integration

package api

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/workpulling/workpulling/test/integration/environment"
)

var env *environment.Environment

func TestAPI(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "API")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	env, err = environment.Start(ctx, environment.Options{})
	Expect(err).NotTo(HaveOccurred())
})

var _ = AfterSuite(func() {
	if env != nil {
		Expect(env.Stop()).To(Succeed())
	}
})

// newNamespace makes a namespace that goes with the spec.
func newNamespace(ctx SpecContext) string {
	GinkgoHelper()
	namespace, err := env.Namespace(ctx, "api")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(env.DeleteNamespace(ctx, namespace)).To(Succeed())
	})
	return namespace
}
