package helm

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var prometheus = map[string]any{
	"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": "monitoring"}},
	"podSelector":       map[string]any{"matchLabels": map[string]any{"app": "it's"}}, // a quote, as no label has it
}

func TestTheOperatorsNetworkPolicy(t *testing.T) {
	configured, err := decode(readFile(t, "config", "networkpolicy", "operator.yaml"))
	if err != nil || len(configured) != 1 {
		t.Fatalf("%d objects: %v", len(configured), err)
	}
	want := typed[networkingv1.NetworkPolicy](t, configured[0])
	for name, r := range releases {
		t.Run(name, func(t *testing.T) {
			objects := render(t, operator, r)
			policies := ofKind(objects, "NetworkPolicy")
			if len(policies) != 1 {
				t.Fatalf("%d policies", len(policies))
			}
			got := typed[networkingv1.NetworkPolicy](t, policies[0])
			if diff := cmp.Diff(want.Spec.Ingress, got.Spec.Ingress); diff != "" {
				t.Errorf("the chart's policy is not that of config/networkpolicy (-configured +chart):\n%s", diff)
			}
			deployment := typed[appsv1.Deployment](t, ofKind(objects, "Deployment")[0])
			if diff := cmp.Diff(deployment.Spec.Selector, &got.Spec.PodSelector); diff != "" {
				t.Errorf("it selects other pods than the Deployment (-Deployment +policy):\n%s", diff)
			}
		})
	}
	if got := ofKind(render(t, operator, odd), "NetworkPolicy"); len(got) != 0 {
		t.Errorf("%d policies where they are off", len(got))
	}
}

func TestScrapersReachTheMetricsOfEveryPod(t *testing.T) {
	objects := render(t, operator, odd.with(map[string]any{"networkPolicy": map[string]any{
		"enabled": true, "scrapers": []any{prometheus}, "flows": map[string]any{"enabled": true, "appPorts": "Closed"},
	}}))
	container := typed[appsv1.Deployment](t, ofKind(objects, "Deployment")[0]).Spec.Template.Spec.Containers[0]
	var told []networkingv1.NetworkPolicyPeer
	if err := json.Unmarshal([]byte(flag(t, container, "network-policy-scrapers")), &told); err != nil {
		t.Fatal(err)
	}
	rule := typed[networkingv1.NetworkPolicy](t, ofKind(objects, "NetworkPolicy")[0]).Spec.Ingress[1]
	if diff := cmp.Diff(rule.From, told); diff != "" {
		t.Errorf("scrapers (-operator's +those of flows and pools):\n%s", diff)
	}
	if rule.From[0].PodSelector.MatchLabels["app"] != "it's" || *rule.Ports[0].Port != intstr.FromInt32(8443) {
		t.Errorf("the rule is %+v", rule)
	}
	if got := flag(t, container, "network-policy-app-ports"); got != "Closed" {
		t.Errorf("the ports of apps are %s", got)
	}
}

func TestWhoSubmitsAndDrainsByDefault(t *testing.T) {
	for name, r := range releases {
		t.Run(name, func(t *testing.T) {
			deployment := typed[appsv1.Deployment](t, ofKind(render(t, operator, r), "Deployment")[0])
			container := deployment.Spec.Template.Spec.Containers[0]
			var submitters []networkingv1.NetworkPolicyPeer
			if err := json.Unmarshal([]byte(flag(t, container, "network-policy-submitters")), &submitters); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}, submitters); diff != "" {
				t.Errorf("submitters (-want +got):\n%s", diff)
			}
			pods, err := labels.ConvertSelectorToLabelsMap(flag(t, container, "operator-pod-labels"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(deployment.Spec.Selector.MatchLabels, map[string]string(pods)); diff != "" {
				t.Errorf("labels of the operator (-Deployment +flag):\n%s", diff)
			}
		})
	}
}

// A scraper sends its token to whom it scrapes, so it has to know who that is.
func TestTheScraperVerifiesWhomItScrapes(t *testing.T) {
	for name, r := range releases {
		t.Run(name, func(t *testing.T) {
			objects := render(t, operator, r)
			container := typed[appsv1.Deployment](t, ofKind(objects, "Deployment")[0]).Spec.Template.Spec.Containers[0]
			endpoints, _, err := unstructured.NestedSlice(ofKind(objects, "ServiceMonitor")[0].Object, "spec", "endpoints")
			if err != nil || len(endpoints) != 1 {
				t.Fatalf("%d endpoints: %v", len(endpoints), err)
			}
			endpoint, _ := endpoints[0].(map[string]any)
			want := map[string]any{
				"serverName": flag(t, container, "metrics-host"),
				"ca":         map[string]any{"secret": map[string]any{"name": flag(t, container, "ca-secret"), "key": "ca.crt"}},
			}
			if diff := cmp.Diff(want, endpoint["tlsConfig"]); diff != "" {
				t.Errorf("how it verifies (-want +got):\n%s", diff)
			}
		})
	}
}
