package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestConfined(t *testing.T) {
	rule := func(resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: resources, Verbs: []string{"get"}}
	}
	given := []rbacv1.PolicyRule{rule("nodes"), rule("pods", "namespaces"), rule("localsubjectaccessreviews", "subjectaccessreviews")}
	want := []rbacv1.PolicyRule{rule("pods"), rule("localsubjectaccessreviews")}
	if diff := cmp.Diff(want, confined(given)); diff != "" {
		t.Error(diff)
	}
	if got := given[1].Resources; len(got) != 2 {
		t.Errorf("the given rules were changed: %q", got)
	}
}

// The Role that is installed is that of the markers in the code.
func TestTheRoleIsUpToDate(t *testing.T) {
	config := filepath.Join("..", "..", "config")
	role, err := os.Open(filepath.Join(config, "rbac", "role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer role.Close()
	var got bytes.Buffer
	if err := run(role, &got); err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(filepath.Join(config, "namespaced", "rights", "role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), got.String()); diff != "" {
		t.Errorf("config/namespaced/rights/role.yaml (-have +want); run make manifests:\n%s", diff)
	}
}

func TestWhatIsNoRoleIsRefused(t *testing.T) {
	for _, text := range []string{"rules: 7", "rule: []", "\t"} {
		if err := run(strings.NewReader(text), &bytes.Buffer{}); err == nil {
			t.Errorf("%q was taken for a ClusterRole", text)
		}
	}
}
