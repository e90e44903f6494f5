package helm

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// issuedBy renders the chart with an issuer of cert-manager.
func issuedBy(t *testing.T, issuer map[string]any) (args []string, role *rbacv1.ClusterRole) {
	t.Helper()
	for _, object := range render(t, operator, odd.with(map[string]any{"certificates": map[string]any{"issuer": issuer}})) {
		switch {
		case object.GetKind() == "Deployment":
			for _, c := range typed[appsv1.Deployment](t, object).Spec.Template.Spec.Containers {
				args = append(args, c.Args...)
			}
		case object.GetKind() == "ClusterRole" && strings.HasSuffix(object.GetName(), ":certificate-requests"):
			role = typed[rbacv1.ClusterRole](t, object)
		}
	}
	return slices.DeleteFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "--certificate-issuer") }), role
}

func TestAnIssuerIsNamedToTheOperator(t *testing.T) {
	configured, err := decode(readFile(t, "config", "rbac", "certificate_requests_role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := typed[rbacv1.ClusterRole](t, configured[0])
	for name, tc := range map[string]struct {
		issuer map[string]any
		want   string
	}{
		"none":            {map[string]any{}, ""},
		"a ClusterIssuer": {map[string]any{"name": "corporate"}, "--certificate-issuer=ClusterIssuer.cert-manager.io/corporate"},
		"an Issuer":       {map[string]any{"kind": "Issuer", "name": "team"}, "--certificate-issuer=Issuer.cert-manager.io/team"},
		"another group":   {map[string]any{"kind": "StepClusterIssuer", "group": "certmanager.step.sm", "name": "x"}, "--certificate-issuer=StepClusterIssuer.certmanager.step.sm/x"},
	} {
		t.Run(name, func(t *testing.T) {
			args, role := issuedBy(t, tc.issuer)
			if got := strings.Join(args, " "); got != tc.want {
				t.Errorf("flags %q, want %q", got, tc.want)
			}
			if tc.want == "" {
				if role != nil {
					t.Error("the operator may make requests that it never makes")
				}
				return
			}
			if role == nil {
				t.Fatal("the operator may make no requests")
			}
			if diff := cmp.Diff(want.Rules, role.Rules); diff != "" {
				t.Errorf("the chart's role is not config/rbac's (-configured +chart):\n%s", diff)
			}
		})
	}
}
