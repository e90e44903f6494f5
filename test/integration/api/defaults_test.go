//go:build integration

package api

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/workpulling/workpulling/test/integration/apicases"
)

var _ = DescribeTable("Defaults", func(ctx SpecContext, base apicases.Base, want string) {
	object := build(newNamespace(ctx), base, nil)
	Expect(env.Client.Create(ctx, object)).To(Succeed())
	stored, err := yaml.Marshal(object.Object["spec"])
	Expect(err).NotTo(HaveOccurred())
	Expect(stored).To(MatchYAML(want))
},
	Entry("of a flow", apicases.Flow, apicases.DefaultedFlow),
	Entry("of a pool", apicases.Pool, apicases.DefaultedPool),
)
