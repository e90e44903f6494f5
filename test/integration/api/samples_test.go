//go:build integration

package api

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/test/integration/environment"
)

// kustomization files are for kubectl alone.
const kustomization = "kustomization.yaml"

// invalid starts the names of samples that show what the API refuses.
const invalid = "invalid-"

var _ = Describe("The samples", func() {
	It("apply, and the invalid ones are refused", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		kinds := map[string]int{}
		for _, file := range sampleFiles() {
			objects, err := environment.ReadManifest(file)
			Expect(err).NotTo(HaveOccurred())
			for _, object := range objects {
				what := fmt.Sprintf("%s %s of %s", object.GetKind(), object.GetName(), filepath.Base(file))
				if strings.HasPrefix(filepath.Base(file), invalid) {
					Expect(dryRun(ctx, namespace, object)).To(MatchError(apierrors.IsInvalid, "IsInvalid"), what)
				} else {
					Expect(dryRun(ctx, namespace, object)).To(Succeed(), what)
				}
				kinds[object.GetKind()]++
			}
		}
		Expect(kinds).To(And(HaveKey("WorkPullingFlow"), HaveKey("WorkerPool")))
	})
})

// dryRun applies an object, in our namespace where its kind has one, without
// keeping it.
func dryRun(ctx SpecContext, namespace string, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := env.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		object.SetNamespace(namespace)
	}
	return env.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.DryRunAll, client.FieldOwner("samples"))
}

func sampleFiles() []string {
	GinkgoHelper()
	root, err := environment.RepositoryRoot()
	Expect(err).NotTo(HaveOccurred())
	var files []string
	Expect(filepath.WalkDir(filepath.Join(root, "config", "samples"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".yaml") && entry.Name() != kustomization {
			files = append(files, path)
		}
		return err
	})).To(Succeed())
	return files
}
