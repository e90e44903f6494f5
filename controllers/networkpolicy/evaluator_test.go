package networkpolicy

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// endpoint is a pod, or, without a namespace, an address outside of the cluster.
type endpoint struct {
	name, namespace string
	labels          map[string]string
	address         string
}

type door struct {
	protocol corev1.Protocol
	port     int32
}

// network is what a plugin that enforces policies knows.
type network struct {
	namespaces map[string]map[string]string
	policies   []*networkingv1.NetworkPolicy
}

// allows says whether from may open a connection to a port of to: where any policy selects the pod, one of them has to allow it.
func (n network) allows(from, to endpoint, d door) bool {
	isolated := false
	for _, p := range n.policies {
		if p.Namespace != to.namespace || !matches(&p.Spec.PodSelector, to.labels) || !slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
			continue
		}
		isolated = true
		for _, rule := range p.Spec.Ingress {
			if n.admits(p.Namespace, rule.From, from) && opens(rule.Ports, d) {
				return true
			}
		}
	}
	return !isolated
}

func (n network) admits(namespace string, peers []networkingv1.NetworkPolicyPeer, from endpoint) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool { return n.is(namespace, p, from) })
}

func (n network) is(namespace string, peer networkingv1.NetworkPolicyPeer, from endpoint) bool {
	if peer.IPBlock != nil {
		address := netip.MustParseAddr(from.address)
		excepted := slices.ContainsFunc(peer.IPBlock.Except, func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(address) })
		return netip.MustParsePrefix(peer.IPBlock.CIDR).Contains(address) && !excepted
	}
	if from.namespace == "" {
		return false
	}
	if peer.NamespaceSelector == nil && from.namespace != namespace {
		return false
	}
	if peer.NamespaceSelector != nil && !matches(peer.NamespaceSelector, n.namespaces[from.namespace]) {
		return false
	}
	return peer.PodSelector == nil || matches(peer.PodSelector, from.labels)
}

func opens(ports []networkingv1.NetworkPolicyPort, d door) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		protocol := corev1.ProtocolTCP
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		if protocol != d.protocol {
			return false
		}
		if p.Port == nil {
			return true
		}
		last := p.Port.IntVal
		if p.EndPort != nil {
			last = *p.EndPort
		}
		return p.Port.IntVal <= d.port && d.port <= last
	})
}

func matches(selector *metav1.LabelSelector, set map[string]string) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(labels.Set(set))
}
