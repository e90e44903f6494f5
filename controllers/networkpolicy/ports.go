package networkpolicy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

const lastPort = 65535

// runtimePorts are those that no template may use.
var runtimePorts = []int32{runtimeconfig.PortHealth, runtimeconfig.PortMetrics, runtimeconfig.PortTransport, runtimeconfig.PortIntake}

func tcp(numbers ...int32) []networkingv1.NetworkPolicyPort {
	var list []networkingv1.NetworkPolicyPort
	for _, number := range numbers {
		list = append(list, span(corev1.ProtocolTCP, number, number))
	}
	return list
}

func span(protocol corev1.Protocol, first, last int32) networkingv1.NetworkPolicyPort {
	p := networkingv1.NetworkPolicyPort{Protocol: ptr.To(protocol), Port: ptr.To(intstr.FromInt32(first))}
	if last > first {
		p.EndPort = ptr.To(last)
	}
	return p
}

// appPorts are all ports but the runtime's. A policy cannot name what it leaves out, so these are the ranges between.
func appPorts() []networkingv1.NetworkPolicyPort {
	var list []networkingv1.NetworkPolicyPort
	first := int32(1)
	for _, taken := range slices.Sorted(slices.Values(runtimePorts)) {
		if first < taken {
			list = append(list, span(corev1.ProtocolTCP, first, taken-1))
		}
		first = taken + 1
	}
	return append(list, span(corev1.ProtocolTCP, first, lastPort),
		span(corev1.ProtocolUDP, 1, lastPort), span(corev1.ProtocolSCTP, 1, lastPort))
}
