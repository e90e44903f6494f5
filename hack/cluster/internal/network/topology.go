package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"

	"github.com/workpulling/workpulling/hack/cluster/internal/address"
)

// Topology is what to join. The process ids are those of the namespaces' holders, as the caller sees them.
type Topology struct {
	Plan         address.Plan
	HostLink     string
	ControlPlane Namespace
	Nodes        []Namespace // node-1 first
}

// NodeLink is the name of node i's cable at the bridge, in the control plane's namespace.
func NodeLink(i int) string { return fmt.Sprintf("node-%d", i) }

// Join builds the bridge and plugs in the nodes and the host.
func (t Topology) Join(ctx context.Context) error {
	if err := t.ControlPlane.ip(ctx, t.controlPlaneLines()...); err != nil {
		return fmt.Errorf("control plane: %w", err)
	}
	for i, node := range t.Nodes {
		if err := node.ip(ctx, t.nodeLines(i+1)...); err != nil {
			return fmt.Errorf("node-%d: %w", i+1, err)
		}
	}
	if err := (Namespace{}).ip(ctx, t.hostLines()...); err != nil {
		return fmt.Errorf("host: %w", err)
	}
	return t.ControlPlane.ip(ctx, "link set host master bridge", "link set host up")
}

func (t Topology) controlPlaneLines() []string {
	p := t.Plan
	lines := []string{
		"link set lo up",
		"link add bridge type bridge",
		"addr add " + p.OnBridge(p.ControlPlane()) + " dev bridge",
		"link set bridge up",
		// Only nodes can translate a Service's address; a packet that comes here with one would go round in circles.
		"route add unreachable " + p.Services().String(),
	}
	for i := range t.Nodes {
		link := NodeLink(i + 1)
		lines = append(lines,
			fmt.Sprintf("link add %s type veth peer name eth0 netns %d", link, t.Nodes[i].PID),
			"link set "+link+" master bridge",
			"link set "+link+" up",
		)
	}
	// A route needs its next hop's network only, so these may come before the nodes have their addresses.
	return append(lines, t.podRoutes(0)...)
}

func (t Topology) nodeLines(i int) []string {
	p := t.Plan
	lines := []string{
		"link set lo up",
		"addr add " + p.OnBridge(p.Node(i)) + " dev eth0",
		"link set eth0 up",
		// The kernel looks for a route before kube-proxy's rules translate the address.
		fmt.Sprintf("route add %s via %s", p.Services(), p.ControlPlane()),
	}
	return append(lines, t.podRoutes(i)...)
}

func (t Topology) hostLines() []string {
	p := t.Plan
	lines := []string{
		fmt.Sprintf("link add %s type veth peer name host netns %d", t.HostLink, t.ControlPlane.PID),
		fmt.Sprintf("addr add %s dev %s", p.OnBridge(p.Host()), t.HostLink),
		"link set " + t.HostLink + " up",
		fmt.Sprintf("route add %s via %s", p.Services(), p.Node(1)),
	}
	return append(lines, t.podRoutes(0)...)
}

// podRoutes sends the pods of every node but one to their node.
func (t Topology) podRoutes(except int) []string {
	var lines []string
	for i := 1; i <= len(t.Nodes); i++ {
		if i != except {
			lines = append(lines, fmt.Sprintf("route add %s via %s", t.Plan.NodePods(i), t.Plan.Node(i)))
		}
	}
	return lines
}

// SetLink plugs node i in or out. Nothing on the node is told: its pods run on.
func SetLink(ctx context.Context, controlPlane Namespace, i int, up bool) error {
	to := "down"
	if up {
		to = "up"
	}
	return controlPlane.ip(ctx, fmt.Sprintf("link set %s %s", NodeLink(i), to))
}

// LinkUp tells whether node i is plugged in. The cable of a node that has died is gone.
func LinkUp(ctx context.Context, controlPlane Namespace, i int) (bool, error) {
	out, err := controlPlane.command(ctx, "ip", "-j", "link", "show", "dev", NodeLink(i)).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && strings.Contains(string(exit.Stderr), "does not exist") {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking at the link of node-%d: %w", i, err)
	}
	var links []struct{ Flags []string }
	if err := json.Unmarshal(out, &links); err != nil || len(links) != 1 {
		return false, fmt.Errorf("looking at the link of node-%d: unexpected answer %q", i, out)
	}
	for _, flag := range links[0].Flags {
		if flag == "UP" {
			return true, nil
		}
	}
	return false, nil
}

// RemoveHostLink takes away the host's interface and with it the routes over it. One that is not there is no error.
func RemoveHostLink(ctx context.Context, name string) error {
	out, err := exec.CommandContext(ctx, "ip", "link", "delete", name).CombinedOutput()
	if err != nil && !strings.Contains(string(out), "Cannot find device") {
		return fmt.Errorf("removing interface %s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Routes lists the destinations that this machine has routes for.
func Routes(ctx context.Context) ([]netip.Prefix, error) {
	out, err := exec.CommandContext(ctx, "ip", "-j", "-4", "route", "show", "table", "all").Output()
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	return parseRoutes(out)
}

func parseRoutes(text []byte) ([]netip.Prefix, error) {
	var routes []struct{ Dst string }
	if err := json.Unmarshal(text, &routes); err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	var out []netip.Prefix
	for _, r := range routes {
		if prefix, err := netip.ParsePrefix(r.Dst); err == nil {
			out = append(out, prefix)
		} else if a, err := netip.ParseAddr(r.Dst); err == nil {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		} // "default" is neither
	}
	return out, nil
}
