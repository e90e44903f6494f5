package networkpolicy

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/podbuilder"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// Producer is the policy of a flow's producers. Submitters reach both ports: the intake, and the one where Go programs submit. The probes
// need no rule: what comes from the pod's own node is always let through.
func Producer(flow *v1alpha1.WorkPullingFlow, s Settings) *networkingv1.NetworkPolicy {
	workers := Peers{pods(map[string]string{v1alpha1.LabelRole: v1alpha1.RoleWorker, v1alpha1.LabelPullsFrom(flow.Name): v1alpha1.PullsFrom})}
	rules := []networkingv1.NetworkPolicyIngressRule{rule(workers, tcp(runtimeconfig.PortTransport))}
	clients := s.Submitters
	if flow.Spec.Queue.IsShared() {
		clients = append(Peers{pods(podbuilder.ProducerLabels(flow))}, clients...)
	}
	if len(clients) > 0 {
		rules = append(rules, rule(clients, tcp(runtimeconfig.PortTransport, runtimeconfig.PortIntake)))
	}
	rules = append(rules, scraping(s)...)
	if flow.Spec.Producer.Template != nil {
		rules = append(rules, apps(s)...)
	}
	return policy(metav1.ObjectMeta{
		Namespace: flow.Namespace, Name: runtimeconfig.ProducerName(flow.Name), Labels: podbuilder.ProducerLabels(flow),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(flow, v1alpha1.GroupVersion.WithKind(v1alpha1.KindWorkPullingFlow))},
	}, podbuilder.ProducerLabels(flow), rules)
}

// Workers is the policy of a pool's workers: the operator drains them. A worker opens every connection to a producer itself.
func Workers(pool *v1alpha1.WorkerPool, s Settings) *networkingv1.NetworkPolicy {
	operator := pods(s.OperatorPods)
	operator.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.OperatorNamespace}}
	rules := []networkingv1.NetworkPolicyIngressRule{rule(Peers{operator}, tcp(runtimeconfig.PortTransport))}
	rules = append(rules, scraping(s)...)
	rules = append(rules, apps(s)...)
	return policy(metav1.ObjectMeta{
		Namespace: pool.Namespace, Name: runtimeconfig.WorkerName(pool.Name), Labels: podbuilder.WorkerLabels(pool),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pool, v1alpha1.GroupVersion.WithKind(v1alpha1.KindWorkerPool))},
	}, map[string]string{v1alpha1.LabelRole: v1alpha1.RoleWorker, v1alpha1.LabelPool: pool.Name}, rules)
}

func policy(meta metav1.ObjectMeta, selected map[string]string, rules []networkingv1.NetworkPolicyIngressRule) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: meta, Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: selected},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, Ingress: rules,
	}}
}

// rule lets peers reach ports. The peers may not be empty: to a NetworkPolicy that means everybody.
func rule(from Peers, ports []networkingv1.NetworkPolicyPort) networkingv1.NetworkPolicyIngressRule {
	return networkingv1.NetworkPolicyIngressRule{From: from, Ports: ports}
}

func pods(labels map[string]string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: labels}}
}

func scraping(s Settings) []networkingv1.NetworkPolicyIngressRule {
	if len(s.Scrapers) == 0 {
		return nil
	}
	return []networkingv1.NetworkPolicyIngressRule{rule(s.Scrapers, tcp(runtimeconfig.PortMetrics))}
}

// apps leaves what the app serves open to everybody, where that is asked for.
func apps(s Settings) []networkingv1.NetworkPolicyIngressRule {
	if s.AppPorts == AppPortsClosed {
		return nil
	}
	return []networkingv1.NetworkPolicyIngressRule{{Ports: appPorts()}}
}
