package address

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlanHoldsEverythingApart(t *testing.T) {
	p, err := NewPlan(netip.MustParsePrefix("10.203.0.0/16"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{
		"bridge": p.Bridge().String(), "control plane": p.ControlPlane().String(), "node-1": p.Node(1).String(),
		"host": p.Host().String(), "services": p.Services().String(), "api": p.APIService().String(),
		"dns": p.DNSService().String(), "pods": p.Pods().String(), "pods of node-2": p.NodePods(2).String(),
		"host on the bridge": p.OnBridge(p.Host()),
	}
	want := map[string]string{
		"bridge": "10.203.0.0/24", "control plane": "10.203.0.1", "node-1": "10.203.0.11", "host": "10.203.0.254",
		"services": "10.203.16.0/20", "api": "10.203.16.1", "dns": "10.203.16.10", "pods": "10.203.128.0/17",
		"pods of node-2": "10.203.130.0/24", "host on the bridge": "10.203.0.254/24",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	ranges := []netip.Prefix{p.Bridge(), p.Services(), p.Pods()}
	for i, a := range ranges {
		for _, b := range ranges[i+1:] {
			if a.Overlaps(b) {
				t.Errorf("%s overlaps %s", a, b)
			}
		}
	}
	for i := 1; i <= MaxNodes; i++ {
		if !p.Bridge().Contains(p.Node(i)) || p.Node(i) == p.Host() || !p.Pods().Contains(p.NodePods(i).Addr()) {
			t.Errorf("node %d is out of its range: %s, %s", i, p.Node(i), p.NodePods(i))
		}
	}
}

func TestNewPlanRefusesOtherSizes(t *testing.T) {
	for _, bad := range []string{"10.200.0.0/24", "10.0.0.0/8", "10.200.3.0/16", "fd00::/16"} {
		if _, err := NewPlan(netip.MustParsePrefix(bad)); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func TestPick(t *testing.T) {
	for name, c := range map[string]struct {
		used []string
		want string // empty: an error
	}{
		"nothing used":        {nil, "10.200.0.0/16"},
		"only a default":      {[]string{"0.0.0.0/0"}, "10.200.0.0/16"},
		"first one used":      {[]string{"10.200.0.0/24"}, "10.201.0.0/16"},
		"two used":            {[]string{"10.201.16.0/20", "10.200.129.0/24"}, "10.202.0.0/16"},
		"unrelated":           {[]string{"172.17.0.0/16", "192.168.0.0/24"}, "10.200.0.0/16"},
		"all of them covered": {[]string{"10.0.0.0/8"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var used []netip.Prefix
			for _, u := range c.used {
				used = append(used, netip.MustParsePrefix(u))
			}
			p, err := Pick(Candidates(), used)
			switch {
			case c.want == "" && err == nil:
				t.Errorf("got %s, want an error", p.Network)
			case c.want != "" && (err != nil || p.Network.String() != c.want):
				t.Errorf("got %s, %v; want %s", p.Network, err, c.want)
			}
		})
	}
}
