// Command namespacedrole makes the Role of an operator that is confined to namespaces: the rules of its ClusterRole without those on what is
// of the whole cluster. It reads the ClusterRole from its input and writes the Role to its output.
package main

import (
	"fmt"
	"io"
	"os"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

const (
	// name is that of the Role; that of the operator's own namespace, which may be watched too, has another.
	name   = "workpulling-operator-flows"
	header = "# In each namespace that an operator with --confined watches. Made from config/rbac/role.yaml by hack/namespacedrole.\n"
)

// ofTheCluster are the resources that are in no namespace; a Role cannot grant them.
var ofTheCluster = []string{
	"clusterrolebindings", "clusterroles", "csidrivers", "namespaces", "nodes", "storageclasses", "subjectaccessreviews", "tokenreviews",
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "namespacedrole:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	raw, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("reading the ClusterRole: %w", err)
	}
	var from rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(raw, &from); err != nil {
		return fmt.Errorf("parsing the ClusterRole: %w", err)
	}
	// A Role of rbacv1 would be written with an empty time of creation.
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": "Role", "metadata": map[string]any{"name": name}, "rules": confined(from.Rules),
	})
	if err != nil {
		return fmt.Errorf("encoding the Role: %w", err)
	}
	_, err = fmt.Fprint(out, header, string(text))
	return err
}

func confined(rules []rbacv1.PolicyRule) (left []rbacv1.PolicyRule) {
	for _, rule := range rules {
		rule.Resources = slices.DeleteFunc(slices.Clone(rule.Resources), func(r string) bool { return slices.Contains(ofTheCluster, r) })
		if len(rule.Resources) > 0 {
			left = append(left, rule)
		}
	}
	return left
}
