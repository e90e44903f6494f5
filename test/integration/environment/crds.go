package environment

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	fieldOwner   = client.FieldOwner("workpulling-integration")
	establishing = time.Minute
)

// installCRDs applies the CRDs of the repository and waits until the API serves
// them.
func (e *Environment) installCRDs(ctx context.Context) error {
	root, err := RepositoryRoot()
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(root, "config", "crd", "bases", "*.yaml"))
	if err != nil {
		return fmt.Errorf("listing the CRDs: %w", err)
	}
	for _, file := range files {
		objects, err := ReadManifest(file)
		if err != nil {
			return err
		}
		for _, crd := range objects {
			if err := e.installCRD(ctx, crd); err != nil {
				return fmt.Errorf("installing %s: %w", crd.GetName(), err)
			}
		}
	}
	return nil
}

func (e *Environment) installCRD(ctx context.Context, crd *unstructured.Unstructured) error {
	apply := client.ApplyConfigurationFromUnstructured(crd)
	if err := e.Client.Apply(ctx, apply, fieldOwner, client.ForceOwnership); err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(crd)
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, establishing, true, func(ctx context.Context) (bool, error) {
		stored := &unstructured.Unstructured{}
		stored.SetGroupVersionKind(crd.GroupVersionKind())
		if err := e.Client.Get(ctx, key, stored); err != nil {
			return false, err
		}
		typed := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, typed); err != nil {
			return false, err
		}
		return slices.ContainsFunc(typed.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		}), nil
	})
}
