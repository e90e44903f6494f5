package environment

import (
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// WorkerLeasePolicy is the admission policy of an installation, and its binding, under a name of the caller's.
func WorkerLeasePolicy(name string) ([]*unstructured.Unstructured, error) {
	root, err := RepositoryRoot()
	if err != nil {
		return nil, err
	}
	objects, err := ReadManifest(filepath.Join(root, "config", "admission", "worker_leases.yaml"))
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		o.SetName(name)
		if o.GetKind() != "ValidatingAdmissionPolicyBinding" {
			continue
		}
		if err := unstructured.SetNestedField(o.Object, name, "spec", "policyName"); err != nil {
			return nil, fmt.Errorf("naming the policy: %w", err)
		}
	}
	return objects, nil
}
