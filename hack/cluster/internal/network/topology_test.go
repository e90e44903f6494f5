package network

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/workpulling/workpulling/hack/cluster/internal/address"
)

func topology() Topology {
	return Topology{
		Plan: address.Plan{Network: netip.MustParsePrefix("10.200.0.0/16")}, HostLink: "wpk200",
		ControlPlane: Namespace{PID: 100}, Nodes: []Namespace{{PID: 101}, {PID: 102}},
	}
}

func TestLines(t *testing.T) {
	for name, c := range map[string]struct{ got, want []string }{
		"control plane": {topology().controlPlaneLines(), []string{
			"link set lo up",
			"link add bridge type bridge",
			"addr add 10.200.0.1/24 dev bridge",
			"link set bridge up",
			"route add unreachable 10.200.16.0/20",
			"link add node-1 type veth peer name eth0 netns 101",
			"link set node-1 master bridge",
			"link set node-1 up",
			"link add node-2 type veth peer name eth0 netns 102",
			"link set node-2 master bridge",
			"link set node-2 up",
			"route add 10.200.129.0/24 via 10.200.0.11",
			"route add 10.200.130.0/24 via 10.200.0.12",
		}},
		"node": {topology().nodeLines(2), []string{
			"link set lo up",
			"addr add 10.200.0.12/24 dev eth0",
			"link set eth0 up",
			"route add 10.200.16.0/20 via 10.200.0.1",
			"route add 10.200.129.0/24 via 10.200.0.11",
		}},
		"host": {topology().hostLines(), []string{
			"link add wpk200 type veth peer name host netns 100",
			"addr add 10.200.0.254/24 dev wpk200",
			"link set wpk200 up",
			"route add 10.200.16.0/20 via 10.200.0.11",
			"route add 10.200.129.0/24 via 10.200.0.11",
			"route add 10.200.130.0/24 via 10.200.0.12",
		}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestParseRoutes(t *testing.T) {
	got, err := parseRoutes([]byte(`[{"dst":"default","gateway":"10.0.0.1"},{"dst":"172.17.0.0/16"},{"dst":"10.9.8.7"},{"type":"local","dst":"127.0.0.0/8"}]`))
	if err != nil {
		t.Fatal(err)
	}
	want := []netip.Prefix{netip.MustParsePrefix("172.17.0.0/16"), netip.MustParsePrefix("10.9.8.7/32"), netip.MustParsePrefix("127.0.0.0/8")}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Error(diff)
	}
	if _, err := parseRoutes([]byte("no json")); err == nil {
		t.Error("nonsense was accepted")
	}
}
