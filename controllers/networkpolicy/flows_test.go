package networkpolicy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/podbuilder"
	"github.com/workpulling/workpulling/test/builders"
)

const home = "workpulling-system"

// doors are the ports of the runtime, of the operator, and some of apps.
var doors = map[string]door{
	"health": {corev1.ProtocolTCP, 9440}, "metrics": {corev1.ProtocolTCP, 9441}, "transport": {corev1.ProtocolTCP, 9443},
	"intake": {corev1.ProtocolTCP, 9444}, "operator metrics": {corev1.ProtocolTCP, 8443}, "operator health": {corev1.ProtocolTCP, 8081},
	"app": {corev1.ProtocolTCP, 8080}, "app's UDP": {corev1.ProtocolUDP, 9443},
}

var (
	orders   = builders.MakeFlow("orders", "shop").Memory().Obj()
	invoices = builders.MakeFlow("invoices", "shop").PostgreSQL("db", 2).ProducerTemplate(builders.Template("app")).Obj()
	// namesake is another flow of the same name, elsewhere.
	namesake = builders.MakeFlow("orders", "store").Memory().Obj()
	packers  = builders.MakePool("packers", "shop", "orders").Obj()
	both     = builders.MakePool("both", "shop", "").Flows("orders", "invoices").Obj()
	clerks   = builders.MakePool("clerks", "shop", "invoices").Obj()
	foreign  = builders.MakePool("packers", "store", "orders").Obj()
)

func settings() Settings {
	return Settings{
		Enabled: true, OperatorNamespace: home, Submitters: SameNamespace(), AppPorts: AppPortsOpen,
		OperatorPods: map[string]string{"app.kubernetes.io/name": "workpulling", "app.kubernetes.io/component": "operator"},
	}
}

func read[T any](t *testing.T, path ...string) *T {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	var object T
	if err := yaml.UnmarshalStrict(raw, &object); err != nil {
		t.Fatal(err)
	}
	return &object
}

// cluster has every sort of pod, each where a policy could mistake it for another.
func cluster(t *testing.T, s Settings) (network, []endpoint) {
	t.Helper()
	operator := read[networkingv1.NetworkPolicy](t, "config", "networkpolicy", "operator.yaml")
	operator.Namespace = home
	n := network{
		namespaces: map[string]map[string]string{},
		policies: []*networkingv1.NetworkPolicy{
			operator, Producer(orders, s), Producer(invoices, s), Producer(namesake, s),
			Workers(packers, s), Workers(both, s), Workers(clerks, s), Workers(foreign, s),
		},
	}
	for _, name := range []string{home, "shop", "store", "monitoring"} {
		n.namespaces[name] = map[string]string{corev1.LabelMetadataName: name}
	}
	deployed := read[appsv1.Deployment](t, "config", "manager", "deployment.yaml").Spec.Template.Labels
	leaving := worker(t, "a leaving packer", packers)
	delete(leaving.labels, v1alpha1.LabelPoolUID)
	return n, []endpoint{
		{name: "operator", namespace: home, labels: deployed, address: "10.0.0.1"},
		{name: "its neighbour", namespace: home, labels: map[string]string{"app.kubernetes.io/name": "workpulling"}, address: "10.0.0.2"},
		{name: "its image in shop", namespace: "shop", labels: deployed, address: "10.0.0.3"},
		producer(t, "producer of orders", orders), producer(t, "producer of invoices", invoices), producer(t, "producer of store/orders", namesake),
		worker(t, "packer", packers), leaving, worker(t, "worker of both", both), worker(t, "clerk", clerks), worker(t, "packer in store", foreign),
		{name: "pod in shop", namespace: "shop", labels: map[string]string{"app": "web"}, address: "10.0.0.4"},
		{name: "pod in store", namespace: "store", labels: map[string]string{"app": "web"}, address: "10.0.0.5"},
		{name: "prometheus", namespace: "monitoring", labels: map[string]string{"app": "prometheus"}, address: "10.0.0.6"},
		{name: "grafana", namespace: "monitoring", labels: map[string]string{"app": "grafana"}, address: "10.0.0.7"},
		{name: "outside", address: "192.0.2.1"},
	}
}

func worker(t *testing.T, name string, pool *v1alpha1.WorkerPool) endpoint {
	t.Helper()
	pod, err := podbuilder.WorkerPod(pool, "image", "pod")
	if err != nil {
		t.Fatal(err)
	}
	return endpoint{name: name, namespace: pod.Namespace, labels: pod.Labels, address: "10.1.0.1"}
}

func producer(t *testing.T, name string, flow *v1alpha1.WorkPullingFlow) endpoint {
	t.Helper()
	set, err := podbuilder.ProducerStatefulSet(flow, "image", corev1.ReadWriteOnce)
	if err != nil {
		t.Fatal(err)
	}
	return endpoint{name: name, namespace: set.Namespace, labels: set.Spec.Template.Labels, address: "10.2.0.1"}
}

// open lists who can reach each door of each pod of ours, as "pod, door: peers".
func open(n network, all []endpoint) []string {
	var lines []string
	for _, to := range all {
		if _, ours := to.labels[v1alpha1.LabelRole]; !ours && to.name != "operator" {
			continue
		}
		for name, d := range doors {
			var who []string
			for _, from := range all {
				if n.allows(from, to, d) {
					who = append(who, from.name)
				}
			}
			switch len(who) {
			case 0:
			case len(all):
				lines = append(lines, fmt.Sprintf("%s, %s: everybody", to.name, name))
			default:
				lines = append(lines, fmt.Sprintf("%s, %s: %s", to.name, name, strings.Join(who, ", ")))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// What is not in these lists is refused: every pair of pods is tried at every door.
func TestWhoReachesWhom(t *testing.T) {
	inShop := "its image in shop, producer of orders, producer of invoices, packer, a leaving packer, worker of both, clerk, pod in shop"
	inStore := "producer of store/orders, packer in store, pod in store"
	operator := "operator, transport: producer of orders, producer of invoices, producer of store/orders"
	drains := []string{
		"a leaving packer, transport: operator", "clerk, transport: operator", "packer in store, transport: operator",
		"packer, transport: operator", "worker of both, transport: operator",
	}
	appsOpen := []string{}
	for _, pod := range []string{"a leaving packer", "clerk", "packer", "packer in store", "producer of invoices", "worker of both"} {
		for _, door := range []string{"app", "app's UDP", "operator health", "operator metrics"} { // the operator's numbers are any app's
			appsOpen = append(appsOpen, pod+", "+door+": everybody")
		}
	}
	cases := map[string]struct {
		change func(*Settings)
		want   []string
	}{
		"by default": {func(*Settings) {}, slices.Concat(drains, appsOpen, []string{
			operator,
			"producer of orders, transport: " + inShop, "producer of orders, intake: " + inShop,
			"producer of invoices, transport: " + inShop, "producer of invoices, intake: " + inShop,
			"producer of store/orders, transport: " + inStore, "producer of store/orders, intake: " + inStore,
		})},
		"nobody submits from elsewhere, nothing scrapes, apps closed": {
			func(s *Settings) { s.Submitters, s.AppPorts = nil, AppPortsClosed },
			append(slices.Clone(drains),
				operator,
				"producer of orders, transport: packer, a leaving packer, worker of both",
				"producer of invoices, transport: producer of invoices, worker of both, clerk", "producer of invoices, intake: producer of invoices",
				"producer of store/orders, transport: packer in store"),
		},
		"submitters by label and address, a scraper": {
			func(s *Settings) {
				s.AppPorts = AppPortsClosed
				s.Submitters = Peers{
					{NamespaceSelector: &metav1.LabelSelector{}, PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
					{IPBlock: &networkingv1.IPBlock{CIDR: "192.0.2.0/24"}},
				}
				s.Scrapers = Peers{{
					NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "monitoring"}},
					PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": "prometheus"}},
				}}
			},
			append(slices.Clone(drains),
				operator,
				"producer of orders, transport: packer, a leaving packer, worker of both, pod in shop, pod in store, outside",
				"producer of orders, intake: pod in shop, pod in store, outside",
				"producer of invoices, transport: producer of invoices, worker of both, clerk, pod in shop, pod in store, outside",
				"producer of invoices, intake: producer of invoices, pod in shop, pod in store, outside",
				"producer of store/orders, transport: packer in store, pod in shop, pod in store, outside",
				"producer of store/orders, intake: pod in shop, pod in store, outside",
				"producer of orders, metrics: prometheus", "producer of invoices, metrics: prometheus", "producer of store/orders, metrics: prometheus",
				"packer, metrics: prometheus", "a leaving packer, metrics: prometheus", "worker of both, metrics: prometheus",
				"clerk, metrics: prometheus", "packer in store, metrics: prometheus"),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := settings()
			tc.change(&s)
			n, all := cluster(t, s)
			slices.Sort(tc.want)
			if diff := cmp.Diff(tc.want, open(n, all)); diff != "" {
				t.Errorf("who reaches whom (-want +got):\n%s", diff)
			}
		})
	}
}

// Without policies everybody reaches everything, so the lists above owe what they lack to the policies.
func TestEvaluatorWithoutPolicies(t *testing.T) {
	n, all := cluster(t, settings())
	n.policies = nil
	for _, line := range open(n, all) {
		if !strings.HasSuffix(line, ": everybody") {
			t.Error(line)
		}
	}
}

// A worker that was made while its pool pulled from other flows reaches those until it is replaced.
func TestAWorkerOfAnEarlierRevisionKeepsItsFlows(t *testing.T) {
	n, all := cluster(t, settings())
	n.policies = []*networkingv1.NetworkPolicy{Producer(invoices, Settings{Enabled: true})}
	old := worker(t, "old", both)
	edited := both.DeepCopy()
	edited.Spec.Flows = []string{"orders"}
	if young := worker(t, "young", edited); n.allows(young, all[4], doors["transport"]) {
		t.Error("a worker reaches a flow that its pool does not name any more")
	}
	if all[4].name != "producer of invoices" || !n.allows(old, all[4], doors["transport"]) {
		t.Errorf("an earlier worker does not reach %s", all[4].name)
	}
}

func TestAppPortsAreAllButThoseOfTheRuntime(t *testing.T) {
	var closed []int32
	ports := appPorts()
	for port := int32(1); port <= lastPort; port++ {
		if !opens(ports, door{corev1.ProtocolTCP, port}) {
			closed = append(closed, port)
		}
		for _, other := range []corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolSCTP} {
			if !opens(ports, door{other, port}) {
				t.Fatalf("%s %d is closed", other, port)
			}
		}
	}
	if diff := cmp.Diff([]int32{9440, 9441, 9443, 9444}, closed); diff != "" {
		t.Errorf("closed (-want +got):\n%s", diff)
	}
	for _, p := range ports {
		if p.EndPort != nil && *p.EndPort <= p.Port.IntVal {
			t.Errorf("the API refuses the range %d-%d", p.Port.IntVal, *p.EndPort)
		}
	}
}
