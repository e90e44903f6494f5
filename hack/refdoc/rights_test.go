package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// The page of rights gives a reason for every right of the operator, and names no other.
func TestEveryRightIsOnThePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference", "rbac.md"))
	if err != nil {
		t.Fatal(err)
	}
	for heading, file := range map[string]string{
		"## In every namespace (ClusterRole)":                  "role.yaml",
		"## With an issuer of cert-manager":                    "certificate_requests_role.yaml",
		"## In the operator's own namespace (Role)":            "namespaced_role.yaml",
		"A ClusterRoleBinding to `workpulling-token-reviewer`": "token_reviewer_role.yaml",
	} {
		raw, err := os.ReadFile(filepath.Join(root, "config", "rbac", file))
		if err != nil {
			t.Fatal(err)
		}
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict(raw, &role); err != nil {
			t.Fatalf("parsing %s: %v", file, err)
		}
		if diff := cmp.Diff(rightsOfRole(role.Rules), rightsOfTable(t, string(page), heading)); diff != "" {
			t.Errorf("docs/reference/rbac.md, %q (-%s +page):\n%s", heading, file, diff)
		}
	}
}

// rightsOfRole writes each right as "verb resource", with " named x" where it holds for that name alone.
func rightsOfRole(rules []rbacv1.PolicyRule) (rights []string) {
	for _, rule := range rules {
		names := []string{""}
		if len(rule.ResourceNames) > 0 {
			names = nil
		}
		for _, name := range rule.ResourceNames {
			names = append(names, " named "+name)
		}
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					rights = append(rights, verb+" "+resource+name)
				}
			}
		}
	}
	slices.Sort(rights)
	return rights
}

var (
	tableRow = regexp.MustCompile("^\\| (`.+?) \\| (.+?) \\| .+ \\|$")
	// One resource, and the name that its verbs are restricted to.
	rightOf = regexp.MustCompile("`([^`]+)`( named `([^`]+)`)?")
)

// rightsOfTable reads the same out of the first table below a heading.
func rightsOfTable(t *testing.T, page, heading string) (rights []string) {
	t.Helper()
	_, below, found := strings.Cut(page, "\n"+heading)
	if !found {
		t.Fatalf("no heading %q", heading)
	}
	_, table, _ := strings.Cut(below, "\n|---|---|---|\n")
	for line := range strings.Lines(table) {
		row := tableRow.FindStringSubmatch(strings.TrimSpace(line))
		if row == nil {
			break
		}
		for _, right := range rightOf.FindAllStringSubmatch(row[1], -1) {
			name := ""
			if right[3] != "" {
				name = " named " + right[3]
			}
			for verb := range strings.SplitSeq(row[2], ", ") {
				rights = append(rights, verb+" "+right[1]+name)
			}
		}
	}
	slices.Sort(rights)
	return rights
}
