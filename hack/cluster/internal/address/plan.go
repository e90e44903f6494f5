package address

import (
	"fmt"
	"net/netip"
)

// MaxNodes is how many nodes a plan has room for.
const MaxNodes = 100

// Candidates are the networks tried in turn: 10.200.0.0/16 to 10.231.0.0/16.
func Candidates() []netip.Prefix {
	out := make([]netip.Prefix, 0, 32)
	for second := range 32 {
		out = append(out, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(200 + second), 0, 0}), 16))
	}
	return out
}

// Pick gives the first candidate that overlaps none of the prefixes in use. A default route overlaps nothing.
func Pick(candidates, used []netip.Prefix) (Plan, error) {
	for _, c := range candidates {
		if free(c, used) {
			return NewPlan(c)
		}
	}
	return Plan{}, fmt.Errorf("no free network: each of %d candidates from %s overlaps a route of this machine; choose one with --network",
		len(candidates), candidates[0])
}

func free(candidate netip.Prefix, used []netip.Prefix) bool {
	for _, u := range used {
		if u.Bits() > 0 && u.Overlaps(candidate) {
			return false
		}
	}
	return true
}

// Plan is the addresses of one cluster.
type Plan struct {
	Network netip.Prefix `json:"network"`
}

// NewPlan accepts an IPv4 /16 only.
func NewPlan(network netip.Prefix) (Plan, error) {
	if !network.Addr().Is4() || network.Bits() != 16 || network != network.Masked() {
		return Plan{}, fmt.Errorf("network %s: want an IPv4 /16 such as 10.200.0.0/16", network)
	}
	return Plan{Network: network}, nil
}

func (p Plan) at(third, fourth byte) netip.Addr {
	a := p.Network.Addr().As4()
	a[2], a[3] = third, fourth
	return netip.AddrFrom4(a)
}

// Bridge is the network that joins control plane, nodes and host.
func (p Plan) Bridge() netip.Prefix { return netip.PrefixFrom(p.at(0, 0), 24) }

// ControlPlane is where the API server and DNS listen.
func (p Plan) ControlPlane() netip.Addr { return p.at(0, 1) }

// Node is the address of node i, from 1 on.
func (p Plan) Node(i int) netip.Addr { return p.at(0, byte(10+i)) }

// Host is the address of this machine as the cluster sees it.
func (p Plan) Host() netip.Addr { return p.at(0, 254) }

// Services is the range of ClusterIPs.
func (p Plan) Services() netip.Prefix { return netip.PrefixFrom(p.at(16, 0), 20) }

// APIService is the ClusterIP of kubernetes.default, always the first of the range.
func (p Plan) APIService() netip.Addr { return p.at(16, 1) }

// DNSService is the ClusterIP of kube-dns.
func (p Plan) DNSService() netip.Addr { return p.at(16, 10) }

// Pods is the range of all pods.
func (p Plan) Pods() netip.Prefix { return netip.PrefixFrom(p.at(128, 0), 17) }

// NodePods is the range of the pods on node i, from 1 on.
func (p Plan) NodePods(i int) netip.Prefix { return netip.PrefixFrom(p.at(byte(128+i), 0), 24) }

// OnBridge writes an address of the bridge network with its prefix length, as "ip addr add" wants it.
func (p Plan) OnBridge(a netip.Addr) string { return fmt.Sprintf("%s/%d", a, p.Bridge().Bits()) }
