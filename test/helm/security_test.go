package helm

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

func TestPodsAreRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	deployments := ofKind(render(t, operator, odd), "Deployment")
	if len(deployments) == 0 {
		t.Fatal("the chart has no Deployment")
	}
	for _, object := range deployments {
		pod := typed[appsv1.Deployment](t, object).Spec.Template
		for _, result := range evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec) {
			if !result.Allowed {
				t.Errorf("%s: %s: %s", object.GetName(), result.ForbiddenReason, result.ForbiddenDetail)
			}
		}
		for _, container := range pod.Spec.Containers {
			if container.SecurityContext.ReadOnlyRootFilesystem == nil || !*container.SecurityContext.ReadOnlyRootFilesystem {
				t.Errorf("%s may write to its root", container.Name)
			}
			if container.Resources.Requests.Memory().IsZero() || container.Resources.Limits.Memory().IsZero() {
				t.Errorf("%s has no bounds of memory", container.Name)
			}
		}
	}
}

// operatorRules are those of all roles that are bound to the operator.
func operatorRules(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	objects := render(t, operator, odd)
	var rules []rbacv1.PolicyRule
	for _, object := range append(ofKind(objects, "RoleBinding"), ofKind(objects, "ClusterRoleBinding")...) {
		ref := typed[rbacv1.RoleBinding](t, object).RoleRef
		rules = append(rules, typed[rbacv1.ClusterRole](t, find(t, objects, ref.Kind, ref.Name)).Rules...)
	}
	if len(rules) == 0 {
		t.Fatal("the operator has no rights")
	}
	return rules
}

func TestNoWildcards(t *testing.T) {
	objects := render(t, operator, odd)
	for _, object := range append(ofKind(objects, "Role"), ofKind(objects, "ClusterRole")...) {
		for _, rule := range typed[rbacv1.ClusterRole](t, object).Rules {
			if all := slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs); slices.Contains(all, "*") {
				t.Errorf("%s has a wildcard: %v", object.GetName(), rule)
			}
		}
	}
}

func TestSecretsOfUsersCannotBeRead(t *testing.T) {
	for _, rule := range operatorRules(t) {
		if !slices.Contains(rule.Resources, "secrets") {
			continue
		}
		for _, verb := range rule.Verbs {
			if verb != "create" && len(rule.ResourceNames) == 0 {
				t.Errorf("the operator may %s every Secret", verb)
			}
		}
	}
}

func TestRightsAreNotHandedOnFreely(t *testing.T) {
	for _, rule := range operatorRules(t) {
		if slices.Contains(rule.Verbs, "escalate") || slices.Contains(rule.Verbs, "impersonate") {
			t.Errorf("the operator may %q %q", rule.Verbs, rule.Resources)
		}
		if slices.Contains(rule.Verbs, "bind") && !slices.Equal(rule.ResourceNames, []string{"quite-odd:zx-9-workpulling:token-reviewer"}) {
			t.Errorf("the operator may bind %q", rule.ResourceNames)
		}
	}
}

// odd names replace those of config/rbac, which belong to the kustomize installation.
var oddNames = strings.NewReplacer(
	"workpulling-token-reviewer", "quite-odd:zx-9-workpulling:token-reviewer",
	"workpulling-operator-ca", "zx-9-workpulling-ca",
	"workpulling-operator", "zx-9-workpulling",
)

func TestRolesAreThoseOfTheCode(t *testing.T) {
	objects := render(t, operator, odd)
	for file, name := range map[string]string{
		"role.yaml":                "quite-odd:zx-9-workpulling",
		"namespaced_role.yaml":     "zx-9-workpulling",
		"token_reviewer_role.yaml": "quite-odd:zx-9-workpulling:token-reviewer",
	} {
		configured, err := decode(oddNames.Replace(readFile(t, "config", "rbac", file)))
		if err != nil || len(configured) != 1 {
			t.Fatalf("%s holds %d objects: %v", file, len(configured), err)
		}
		want := typed[rbacv1.ClusterRole](t, configured[0])
		got := typed[rbacv1.ClusterRole](t, find(t, objects, configured[0].GetKind(), name))
		if diff := cmp.Diff(want.Rules, got.Rules); diff != "" {
			t.Errorf("the chart's %s is not config/rbac/%s; run hack/charts.sh (-configured +chart):\n%s", name, file, diff)
		}
	}
}
