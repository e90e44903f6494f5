package operator

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/workpulling/workpulling/controllers/flow"
	"github.com/workpulling/workpulling/controllers/pool"
	"github.com/workpulling/workpulling/test/builders"
)

// secretRights are all rights on Secrets that any role of ours has. Creating one reads none; every other right is on one name of our own.
var secretRights = []string{
	"config/namespaced/authority.yaml: create", "config/namespaced/rights/role.yaml: create", "config/namespaced/rights/role.yaml: delete workpulling-tls",
	"config/namespaced/rights/role.yaml: get workpulling-tls", "config/namespaced/rights/role.yaml: list workpulling-tls",
	"config/namespaced/rights/role.yaml: patch workpulling-tls", "config/namespaced/rights/role.yaml: watch workpulling-tls",
	"config/rbac/namespaced_role.yaml: get workpulling-operator-ca", "config/rbac/namespaced_role.yaml: patch workpulling-operator-ca",
	"config/rbac/role.yaml: create",
	"config/rbac/role.yaml: delete workpulling-tls", "config/rbac/role.yaml: get workpulling-tls", "config/rbac/role.yaml: list workpulling-tls",
	"config/rbac/role.yaml: patch workpulling-tls", "config/rbac/role.yaml: watch workpulling-tls",
}

// TestRoles refuses what a security team would refuse, of the operator and of the pods that it makes.
func TestRoles(t *testing.T) {
	var onSecrets []string
	roles := allRoles(t)
	if len(roles) < 5 {
		t.Errorf("%d roles, want those of the operator, of producers and of workers", len(roles))
	}
	for where, rules := range roles {
		if len(rules) == 0 {
			t.Errorf("%s has no rules", where)
		}
		for _, rule := range rules {
			if all := slices.Concat(rule.Verbs, rule.Resources, rule.APIGroups, rule.NonResourceURLs); slices.Contains(all, "*") {
				t.Errorf("%s has a wildcard: %v", where, rule)
			}
			for _, verb := range []string{"escalate", "impersonate", "approve", "sign", "deletecollection"} {
				if slices.Contains(rule.Verbs, verb) {
					t.Errorf("%s may %s: %v", where, verb, rule)
				}
			}
			for _, resource := range []string{"pods/exec", "pods/attach", "pods/portforward", "pods/ephemeralcontainers", "serviceaccounts/token", "nodes/proxy"} {
				if slices.Contains(rule.Resources, resource) {
					t.Errorf("%s gets into pods or acts for others: %v", where, rule)
				}
			}
			if slices.Contains(rule.Verbs, "bind") && len(rule.ResourceNames) != 1 {
				t.Errorf("%s binds any role: %v", where, rule)
			}
			if slices.Contains(rule.Resources, "secrets") {
				onSecrets = append(onSecrets, onNames(where, rule)...)
			}
		}
	}
	slices.Sort(onSecrets)
	if !slices.Equal(onSecrets, secretRights) {
		t.Errorf("rights on Secrets are\n%s\nwant\n%s", strings.Join(onSecrets, "\n"), strings.Join(secretRights, "\n"))
	}
}

func onNames(where string, rule rbacv1.PolicyRule) (rights []string) {
	for _, verb := range rule.Verbs {
		if len(rule.ResourceNames) == 0 {
			rights = append(rights, where+": "+verb)
		}
		for _, name := range rule.ResourceNames {
			rights = append(rights, where+": "+verb+" "+name)
		}
	}
	return rights
}

// allRoles are the rules of every role, by where it comes from.
func allRoles(t *testing.T) map[string][]rbacv1.PolicyRule {
	t.Helper()
	roles := map[string][]rbacv1.PolicyRule{}
	root := filepath.Join("..", "..")
	if err := filepath.WalkDir(filepath.Join(root, "config"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		for reader := utilyaml.NewYAMLOrJSONDecoder(file, 4096); ; {
			var document json.RawMessage
			if err := reader.Decode(&document); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return err
			}
			var kind metav1.TypeMeta
			if err := json.Unmarshal(document, &kind); err != nil {
				return err
			}
			if kind.Kind != "ClusterRole" && kind.Kind != "Role" {
				continue
			}
			var role rbacv1.ClusterRole
			if err := json.Unmarshal(document, &role); err != nil {
				return err
			}
			where, _ := filepath.Rel(root, path)
			roles[where] = append(roles[where], role.Rules...)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	producer, shared := builders.MakeFlow("orders", "shop").Memory().Obj(), builders.MakeFlow("orders", "shop").PostgreSQL("db", 3).Obj()
	roles["producer"] = slices.Concat(flow.Rights(producer), flow.Rights(shared))
	for _, object := range pool.Rights(builders.MakePool("packers", "shop", "orders").Obj(), "default") {
		if role, ok := object.(*rbacv1.Role); ok {
			roles["worker"] = role.Rules
		}
	}
	return roles
}
