package fencing

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/workpulling/workpulling/runtime/transport"
)

// inhabitant is a pod as far as it matters to who may submit by an address.
type inhabitant struct {
	metav1.ObjectMeta // namespace, name, UID and version alone

	account   string
	addresses []netip.Addr
	// onHost: its addresses are those of its node. leaving: it is being deleted. over: its containers have ended for good.
	onHost, leaving, over bool
}

// inhabitantOf keeps what is needed of a pod.
func inhabitantOf(pod *unstructured.Unstructured) *inhabitant {
	out := &inhabitant{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.GetNamespace(), Name: pod.GetName(), UID: pod.GetUID(), ResourceVersion: pod.GetResourceVersion(),
		},
		leaving: pod.GetDeletionTimestamp() != nil,
	}
	account, _, _ := unstructured.NestedString(pod.Object, "spec", "serviceAccountName")
	out.account = cmp.Or(account, "default")
	out.onHost, _, _ = unstructured.NestedBool(pod.Object, "spec", "hostNetwork")
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	out.over = phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed)
	first, _, _ := unstructured.NestedString(pod.Object, "status", "podIP")
	out.add(first)
	more, _, _ := unstructured.NestedSlice(pod.Object, "status", "podIPs")
	for _, one := range more {
		if entry, ok := one.(map[string]any); ok {
			text, _ := entry["ip"].(string)
			out.add(text)
		}
	}
	return out
}

func (i *inhabitant) add(text string) {
	if address, err := netip.ParseAddr(text); err == nil && !slices.Contains(i.addresses, plainAddress(address)) {
		i.addresses = append(i.addresses, plainAddress(address))
	}
}

// plainAddress is the one spelling of an address: a connection to a listener of both families shows IPv4 within IPv6.
func plainAddress(address netip.Addr) netip.Addr { return address.Unmap().WithZone("") }

// mayBePod says whether an address can be that of a pod at all: not the loopback of port-forward, nor one that is no single interface's.
func mayBePod(address netip.Addr) bool {
	return address.IsGlobalUnicast()
}

// judgeAddress says which pod of the namespace a caller from an address is. known are pods that may have it, in any order; whatever
// does not fit is not counted. An address of a node is nobody's, whoever else claims it, for all that runs on the node has it.
func judgeAddress(address netip.Addr, namespace string, known []*inhabitant) (*inhabitant, *transport.Refusal) {
	address = plainAddress(address)
	var live *inhabitant
	var several, onHost, leaving, over bool
	for _, pod := range known {
		switch {
		case !mayBePod(address) || pod.Namespace != namespace || !slices.Contains(pod.addresses, address):
		case pod.over:
			over = true
		case pod.onHost:
			onHost = true
		case pod.leaving:
			leaving = true
		default:
			several = several || live != nil && live.UID != pod.UID
			live = pod
		}
	}
	const remedy = "; a caller from elsewhere presents a ServiceAccount token"
	switch {
	case onHost:
		return nil, refuse(transport.LabelAddressHost, retryLater, "the address is that of a node, which all that runs there has"+remedy)
	case several:
		return nil, refuse(transport.LabelAddressShared, retrySoon, "several live pods are said to have the address")
	case live != nil:
		return live, nil
	case leaving:
		return nil, refuse(transport.LabelAddressTerminating, retryLater, "the pod with the address is being deleted"+remedy)
	case over:
		return nil, refuse(transport.LabelAddressFinished, retryLater, "the pod with the address has ended"+remedy)
	}
	return nil, refuse(transport.LabelAddressUnknown, retrySoon, "no live pod of namespace "+namespace+" has the address yet"+remedy)
}
