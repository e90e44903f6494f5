package helm

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

var clusterScoped = map[string]bool{
	"ClusterRole": true, "ClusterRoleBinding": true, "CustomResourceDefinition": true,
	"ValidatingAdmissionPolicy": true, "ValidatingAdmissionPolicyBinding": true,
}

// everything turns on what is off by default.
var everything = map[string]any{
	"metrics":       map[string]any{"serviceMonitor": map[string]any{"enabled": true}},
	"networkPolicy": map[string]any{"enabled": true, "flows": map[string]any{"enabled": true}},
	"certificates":  map[string]any{"issuer": map[string]any{"name": "corporate"}},
}

var releases = map[string]release{
	"odd":               odd.with(everything),
	"name of the chart": {name: "workpulling", namespace: "workpulling-system", values: everything},
	"longest":           {name: strings.Repeat("a", 53), namespace: strings.Repeat("b", 63), values: everything},
	"overridden":        odd.with(map[string]any{"fullnameOverride": "other", "metrics": everything["metrics"], "networkPolicy": everything["networkPolicy"]}),
}

func TestNamesComeFromTheRelease(t *testing.T) {
	for name, r := range releases {
		t.Run(name, func(t *testing.T) {
			objects := render(t, operator, r)
			for _, object := range objects {
				kind := object.GetKind()
				if scoped := clusterScoped[kind]; scoped != (object.GetNamespace() == "") || !scoped && object.GetNamespace() != r.namespace {
					t.Errorf("%s %s has namespace %q", kind, object.GetName(), object.GetNamespace())
				}
				if !clusterScoped[kind] {
					for _, problem := range validation.IsDNS1035Label(object.GetName()) {
						t.Errorf("%s %s: %s", kind, object.GetName(), problem)
					}
				}
				if got := object.GetLabels()["app.kubernetes.io/instance"]; got != r.name {
					t.Errorf("%s %s has instance label %q", kind, object.GetName(), got)
				}
				for key, value := range object.GetLabels() {
					for _, problem := range validation.IsValidLabelValue(value) {
						t.Errorf("%s %s, label %s: %s", kind, object.GetName(), key, problem)
					}
				}
			}
			checkReferences(t, r, objects)
		})
	}
}

// checkReferences follows every name that one object of the chart has of another.
func checkReferences(t *testing.T, r release, objects []*unstructured.Unstructured) {
	t.Helper()
	deployment := typed[appsv1.Deployment](t, ofKind(objects, "Deployment")[0])
	pod := deployment.Spec.Template
	container := pod.Spec.Containers[0]
	find(t, objects, "ServiceAccount", pod.Spec.ServiceAccountName)

	for _, object := range ofKind(objects, "Service") {
		service := typed[corev1.Service](t, object)
		if !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels)) {
			t.Errorf("Service %s does not select the operator", service.Name)
		}
		for _, port := range service.Spec.Ports {
			if !slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.TargetPort.StrVal }) {
				t.Errorf("Service %s: no container port %q", service.Name, port.TargetPort.StrVal)
			}
		}
	}
	for _, object := range append(ofKind(objects, "RoleBinding"), ofKind(objects, "ClusterRoleBinding")...) {
		binding := typed[rbacv1.RoleBinding](t, object)
		find(t, objects, binding.RoleRef.Kind, binding.RoleRef.Name)
		if s := binding.Subjects[0]; s.Name != pod.Spec.ServiceAccountName || s.Namespace != r.namespace {
			t.Errorf("%s binds %s/%s", binding.Name, s.Namespace, s.Name)
		}
	}
	seen := map[string]bool{}
	for _, arg := range container.Args {
		if name, _, _ := strings.Cut(arg, "="); seen[name] {
			t.Errorf("flag %s is given twice", name)
		} else {
			seen[name] = true
		}
	}
	find(t, objects, "ClusterRole", flag(t, container, "token-reviewer-cluster-role"))
	host, port, _ := strings.Cut(flag(t, container, "operator-address"), ":")
	service, domain, _ := strings.Cut(host, ".")
	if stats := typed[corev1.Service](t, find(t, objects, "Service", service)); domain != r.namespace+".svc" || port != "9443" || stats.Spec.Ports[0].Port != 9443 {
		t.Errorf("the operator's address is %s:%s", host, port)
	}
	service, domain, _ = strings.Cut(flag(t, container, "metrics-host"), ".")
	if metrics := typed[corev1.Service](t, find(t, objects, "Service", service)); domain != r.namespace+".svc" || metrics.Spec.Ports[0].TargetPort.StrVal != "metrics" {
		t.Errorf("the metrics' certificate is that of %s.%s", service, domain)
	}
	if got := flag(t, container, "runtime-image"); got != container.Image {
		t.Errorf("the runtime's image is %q, the operator's %q", got, container.Image)
	}
	if id := flag(t, container, "leader-election-id"); !slices.ContainsFunc(ofKind(objects, "Role"), func(o *unstructured.Unstructured) bool {
		return slices.ContainsFunc(typed[rbacv1.Role](t, o).Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.ResourceNames, id) })
	}) {
		t.Errorf("no role names the leader's Lease %q", id)
	}
}

func flag(t *testing.T, container corev1.Container, name string) string {
	t.Helper()
	for _, arg := range container.Args {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value
		}
	}
	t.Fatalf("no flag --%s among %q", name, container.Args)
	return ""
}

func TestReleasesOfOneNameDoNotMeet(t *testing.T) {
	names := map[string]bool{}
	for _, namespace := range []string{"a", "b"} {
		for _, object := range render(t, operator, release{name: "same", namespace: namespace}) {
			if key := object.GetKind() + " " + object.GetName(); clusterScoped[object.GetKind()] {
				if names[key] {
					t.Errorf("%s is in both releases", key)
				}
				names[key] = true
			}
		}
	}
	if len(names) == 0 {
		t.Fatal("nothing was compared")
	}
}

func TestDisruptionBudgetOnlyForMoreThanOne(t *testing.T) {
	for replicas, want := range map[int]int{0: 0, 1: 0, 2: 1, 3: 1} {
		objects := render(t, operator, odd.with(map[string]any{"replicas": replicas}))
		if got := len(ofKind(objects, "PodDisruptionBudget")); got != want {
			t.Errorf("%d replicas: %d budgets, want %d", replicas, got, want)
		}
	}
}

func TestOptionalKindsAreOffByDefault(t *testing.T) {
	builtIn := []string{
		"ClusterRole", "ClusterRoleBinding", "Deployment", "PodDisruptionBudget", "Role", "RoleBinding", "Service", "ServiceAccount",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	}
	for _, object := range render(t, operator, odd) {
		if !slices.Contains(builtIn, object.GetKind()) {
			t.Errorf("%s %s is no kind that every cluster has", object.GetKind(), object.GetName())
		}
	}
}

func TestSchema(t *testing.T) {
	cases := map[string]struct {
		chart  string
		values map[string]any
		valid  bool
	}{
		"unknown value":                    {operator, map[string]any{"replicaCount": 2}, false},
		"unknown nested value":             {operator, map[string]any{"image": map[string]any{"name": "x"}}, false},
		"wrong type":                       {operator, map[string]any{"replicas": "two"}, false},
		"two without a leader":             {operator, map[string]any{"leaderElection": false, "replicas": 2}, false},
		"one without a leader":             {operator, map[string]any{"leaderElection": false, "replicas": 1}, true},
		"no account and no name":           {operator, map[string]any{"serviceAccount": map[string]any{"create": false}}, false},
		"an account made by somebody else": {operator, map[string]any{"serviceAccount": map[string]any{"create": false, "name": "x"}}, true},
		"no digest":                        {operator, map[string]any{"image": map[string]any{"digest": "latest"}}, false},
		"unknown value of the CRDs":        {crds, map[string]any{"install": true}, false},
		"policies without scrapers":        {operator, map[string]any{"networkPolicy": map[string]any{"enabled": true}}, true},
		"peers that are no list":           {operator, map[string]any{"networkPolicy": map[string]any{"scrapers": map[string]any{"podSelector": map[string]any{}}}}, false},
		"an empty peer":                    {operator, map[string]any{"networkPolicy": map[string]any{"scrapers": []any{map[string]any{}}}}, false},
		"half open ports":                  {operator, map[string]any{"networkPolicy": map[string]any{"flows": map[string]any{"appPorts": "Some"}}}, false},
		"CRDs that go":                     {crds, map[string]any{"keep": false}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := try(c.chart, odd.with(c.values)); (err == nil) != c.valid {
				t.Errorf("valid = %t, want %t: %v", err == nil, c.valid, err)
			}
		})
	}
}

func TestReadmeListsEveryValue(t *testing.T) {
	for _, chart := range []string{operator, crds} {
		readme := readFile(t, "charts", chart, "README.md")
		values, err := chartutil.ReadValues([]byte(readFile(t, "charts", chart, "values.yaml")))
		if err != nil {
			t.Fatalf("values of %s: %v", chart, err)
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if !strings.Contains(readme, "`"+key+"`") && !strings.Contains(readme, "`"+key+".") {
				t.Errorf("the README of %s does not explain %s", chart, key)
			}
		}
	}
}
