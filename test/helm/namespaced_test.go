package helm

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// watching is a release that is confined to namespaces, with all that such a one may turn on.
func watching(r release, namespaces ...any) release {
	values := map[string]any{
		"watchNamespaces": namespaces,
		"networkPolicy":   everything["networkPolicy"],
		"metrics":         map[string]any{"prometheusRule": map[string]any{"enabled": true}},
		"certificates":    map[string]any{"issuer": map[string]any{"name": "corporate"}},
	}
	if name, found := r.values["fullnameOverride"]; found {
		values["fullnameOverride"] = name
	}
	return r.with(values)
}

func rolesIn(objects []*unstructured.Unstructured, namespace string) (roles, bindings []*unstructured.Unstructured) {
	elsewhere := func(o *unstructured.Unstructured) bool { return o.GetNamespace() != namespace }
	return slices.DeleteFunc(ofKind(objects, "Role"), elsewhere), slices.DeleteFunc(ofKind(objects, "RoleBinding"), elsewhere)
}

// The chart makes nothing of the whole cluster, whatever its release is called and whatever is turned on.
func TestWatchedNamespacesNeedNothingOfTheCluster(t *testing.T) {
	configured, err := decode(readFile(t, "config", "namespaced", "rights", "role.yaml"))
	if err != nil || len(configured) != 1 {
		t.Fatalf("%d roles: %v", len(configured), err)
	}
	want := append(typed[rbacv1.Role](t, configured[0]).Rules, rbacv1.PolicyRule{
		APIGroups: []string{"cert-manager.io"}, Resources: []string{"certificaterequests"}, Verbs: []string{"create", "delete", "get"},
	})
	for name, r := range releases {
		t.Run(name, func(t *testing.T) {
			objects := render(t, operator, watching(r, "shop", r.namespace))
			for _, object := range objects {
				if clusterScoped[object.GetKind()] || object.GetNamespace() == "" {
					t.Errorf("%s %s is of the whole cluster", object.GetKind(), object.GetName())
				}
			}
			pod := typed[appsv1.Deployment](t, ofKind(objects, "Deployment")[0]).Spec.Template.Spec
			for namespace, number := range map[string]int{"shop": 1, r.namespace: 2} {
				roles, bindings := rolesIn(objects, namespace)
				if len(roles) != number || len(bindings) != number {
					t.Fatalf("%d Roles and %d bindings in %s, want %d", len(roles), len(bindings), namespace, number)
				}
				for _, object := range bindings {
					binding := typed[rbacv1.RoleBinding](t, object)
					subject := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: r.namespace, Name: pod.ServiceAccountName}}
					if diff := cmp.Diff(subject, binding.Subjects); diff != "" || binding.RoleRef.Kind != "Role" {
						t.Errorf("%s in %s binds a %s to (-want +got)\n%s", binding.Name, namespace, binding.RoleRef.Kind, diff)
					}
					find(t, roles, "Role", binding.RoleRef.Name)
				}
			}
			roles, _ := rolesIn(objects, "shop")
			if diff := cmp.Diff(want, typed[rbacv1.Role](t, roles[0]).Rules); diff != "" {
				t.Errorf("the chart's Role is not config/namespaced/rights; run hack/charts.sh (-configured +chart):\n%s", diff)
			}
		})
	}
}

func TestAConfinedOperatorIsToldSo(t *testing.T) {
	objects := render(t, operator, watching(odd, "shop", "store"))
	container := typed[appsv1.Deployment](t, ofKind(objects, "Deployment")[0]).Spec.Template.Spec.Containers[0]
	for name, want := range map[string]string{"confined": "true", "watch-namespaces": "shop,store", "metrics-bind-address": "127.0.0.1:8443"} {
		if got := flag(t, container, name); got != want {
			t.Errorf("--%s is %q, want %q", name, got, want)
		}
	}
	for _, object := range ofKind(objects, "Service") {
		for _, port := range typed[corev1.Service](t, object).Spec.Ports {
			if port.Name == "metrics" {
				t.Errorf("Service %s offers metrics that nobody checks", object.GetName())
			}
		}
	}
	for _, arg := range container.Args {
		if strings.HasPrefix(arg, "--token-reviewer-cluster-role") {
			t.Errorf("%s names what is not there", arg)
		}
	}
	plain := typed[appsv1.Deployment](t, ofKind(render(t, operator, odd), "Deployment")[0]).Spec.Template.Spec.Containers[0]
	for _, arg := range plain.Args {
		if strings.HasPrefix(arg, "--confined") || strings.HasPrefix(arg, "--watch-namespaces") || arg == "--metrics-bind-address=127.0.0.1:8443" {
			t.Errorf("the ordinary installation has %s", arg)
		}
	}
}

// In its own namespace a confined operator has the rights of config/namespaced: those of every operator, and to make its authority.
func TestAConfinedOperatorMakesItsAuthority(t *testing.T) {
	var want []rbacv1.PolicyRule
	for _, file := range [][]string{{"config", "rbac", "namespaced_role.yaml"}, {"config", "namespaced", "authority.yaml"}} {
		objects, err := decode(oddNames.Replace(readFile(t, file...)))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, typed[rbacv1.Role](t, ofKind(objects, "Role")[0]).Rules...)
	}
	got := typed[rbacv1.Role](t, find(t, render(t, operator, watching(odd, "shop")), "Role", "zx-9-workpulling"))
	if diff := cmp.Diff(want, got.Rules); diff != "" {
		t.Errorf("rights in its own namespace (-configured +chart):\n%s", diff)
	}
}

// Several releases may share a cluster, and even a watched namespace has objects of both then.
func TestConfinedReleasesDoNotMeet(t *testing.T) {
	names := map[string]bool{}
	for _, r := range []release{{name: "same", namespace: "a"}, {name: "same", namespace: "b"}, {name: "other", namespace: "a"}} {
		for _, object := range render(t, operator, watching(r, "shop")) {
			key := object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
			if names[key] {
				t.Errorf("%s is in two releases", key)
			}
			names[key] = true
		}
	}
}

func TestWatchedNamespacesAreChecked(t *testing.T) {
	monitored := map[string]any{"metrics": map[string]any{"serviceMonitor": map[string]any{"enabled": true}}}
	for name, c := range map[string]struct {
		namespaces any
		more       map[string]any
		valid      bool
	}{
		"two":                   {[]any{"shop", "store"}, nil, true},
		"none":                  {[]any{}, monitored, true},
		"a text":                {"shop", nil, false},
		"one twice":             {[]any{"shop", "shop"}, nil, false},
		"an empty name":         {[]any{""}, nil, false},
		"a name of two":         {[]any{"shop,store"}, nil, false},
		"no name of any":        {[]any{"Shop"}, nil, false},
		"a monitor of the pod":  {[]any{"shop"}, monitored, false},
		"rights of your own":    {[]any{"shop"}, map[string]any{"rbac": map[string]any{"create": false}}, true},
		"a longer name than is": {[]any{strings.Repeat("a", 64)}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			values := map[string]any{"watchNamespaces": c.namespaces}
			maps.Copy(values, c.more)
			if _, err := try(operator, odd.with(values)); (err == nil) != c.valid {
				t.Errorf("valid = %t, want %t: %v", err == nil, c.valid, err)
			}
		})
	}
}
