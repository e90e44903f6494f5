package helm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestThePolicyOfWorkerLeases(t *testing.T) {
	configured, err := decode(readFile(t, "config", "admission", "worker_leases.yaml"))
	if err != nil || len(configured) != 2 {
		t.Fatalf("%d objects: %v", len(configured), err)
	}
	want := typed[admissionregistrationv1.ValidatingAdmissionPolicy](t, configured[0])
	for name, r := range releases {
		t.Run(name, func(t *testing.T) {
			objects := render(t, operator, r)
			policies, bindings := ofKind(objects, "ValidatingAdmissionPolicy"), ofKind(objects, "ValidatingAdmissionPolicyBinding")
			if len(policies) != 1 || len(bindings) != 1 {
				t.Fatalf("%d policies and %d bindings", len(policies), len(bindings))
			}
			got := typed[admissionregistrationv1.ValidatingAdmissionPolicy](t, policies[0])
			if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
				t.Errorf("the chart's policy is not that of config/admission; run hack/charts.sh (-configured +chart):\n%s", diff)
			}
			for _, problem := range validation.IsDNS1123Subdomain(got.Name) {
				t.Errorf("%s: %s", got.Name, problem)
			}
			binding := typed[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, bindings[0])
			if binding.Spec.PolicyName != got.Name {
				t.Errorf("%s is bound, not %s", binding.Spec.PolicyName, got.Name)
			}
			deny := []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
			if diff := cmp.Diff(deny, binding.Spec.ValidationActions); diff != "" {
				t.Errorf("what it does (-want +got):\n%s", diff)
			}
		})
	}
	without := render(t, operator, odd.with(map[string]any{"workerLeasePolicy": map[string]any{"enabled": false}}))
	if left := append(ofKind(without, "ValidatingAdmissionPolicy"), ofKind(without, "ValidatingAdmissionPolicyBinding")...); len(left) != 0 {
		t.Errorf("%d objects where the policy is off", len(left))
	}
}
