package operator

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// TestRole refuses what a security team would refuse.
func TestRole(t *testing.T) {
	for _, file := range []string{"role.yaml", "namespaced_role.yaml", "token_reviewer_role.yaml"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", file))
		if err != nil {
			t.Fatal(err)
		}
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal(raw, &role); err != nil {
			t.Fatal(err)
		}
		if len(role.Rules) == 0 {
			t.Errorf("%s has no rules", file)
		}
		for _, rule := range role.Rules {
			all := slices.Concat(rule.Verbs, rule.Resources, rule.APIGroups)
			if slices.Contains(all, "*") {
				t.Errorf("%s has a wildcard: %v", file, rule)
			}
			if slices.Contains(rule.Verbs, "escalate") || slices.Contains(rule.Verbs, "impersonate") {
				t.Errorf("%s has a right that gives any other: %v", file, rule)
			}
			secrets := slices.Contains(rule.Resources, "secrets")
			if secrets && len(rule.ResourceNames) == 0 && strings.Join(rule.Verbs, ",") != "create" {
				t.Errorf("%s reads Secrets that are not ours: %v", file, rule)
			}
			if slices.Contains(rule.Verbs, "bind") && len(rule.ResourceNames) != 1 {
				t.Errorf("%s binds any role: %v", file, rule)
			}
		}
	}
}
