package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/workpulling/workpulling/hack/cluster/internal/address"
	"github.com/workpulling/workpulling/hack/cluster/internal/apiclient"
	"github.com/workpulling/workpulling/hack/cluster/internal/cgroup"
	"github.com/workpulling/workpulling/hack/cluster/internal/hosttool"
	"github.com/workpulling/workpulling/hack/cluster/internal/kubebinary"
	"github.com/workpulling/workpulling/hack/cluster/internal/member"
	"github.com/workpulling/workpulling/hack/cluster/internal/network"
	"github.com/workpulling/workpulling/hack/cluster/internal/pki"
	"github.com/workpulling/workpulling/hack/cluster/internal/progress"
	"github.com/workpulling/workpulling/hack/cluster/internal/state"
)

// Options of Up.
type Options struct {
	Name         string                                                              // DefaultName if empty
	Nodes        int                                                                 // 1 if 0
	Network      netip.Prefix                                                        // a free one if not valid
	ExtraAPI     []string                                                            // more flags of kube-apiserver
	ExtraManager []string                                                            // more flags of kube-controller-manager
	Binary       func(context.Context, *progress.Printer) (kubebinary.Binary, error) // builds the Kubernetes program if need be
}

// Up brings the cluster up and returns the path of its kubeconfig. If it runs already that is all. A cluster that is half
// there is taken away first. If Up fails or the context ends, what it made is taken away, except for the logs.
func Up(ctx context.Context, o Options, say *progress.Printer) (string, error) {
	if err := needRoot(); err != nil {
		return "", err
	}
	if o.Name == "" {
		o.Name = DefaultName
	}
	o.Nodes = max(o.Nodes, 1)
	if o.Nodes > address.MaxNodes {
		return "", fmt.Errorf("%d nodes: at most %d", o.Nodes, address.MaxNodes)
	}
	if o.Network.IsValid() {
		if _, err := address.NewPlan(o.Network); err != nil {
			return "", err
		}
	}
	dir, err := DirectoryOf(o.Name)
	if err != nil {
		return "", err
	}
	unlock, err := dir.lock(ctx, say)
	if err != nil {
		return "", err
	}
	defer unlock()
	before, err := state.Load(dir.path)
	if err != nil {
		return "", err
	}
	if before != nil && before.Phase == state.Running && before.Alive() {
		if before.Nodes != o.Nodes {
			return "", fmt.Errorf("cluster %q is up with --nodes %d; take it down first: cluster down --name %s", o.Name, before.Nodes, o.Name)
		}
		say.Printf("cluster %q is up already", o.Name)
		return dir.Kubeconfig(), nil
	}
	if before != nil {
		say.Printf("cluster %q was left half way: taking it away first", o.Name)
		if err := takeDown(ctx, dir, before, say); err != nil {
			return "", err
		}
	}
	u := &up{Options: o, dir: dir, say: say}
	if err := u.run(ctx); err != nil {
		return "", errors.Join(err, u.giveUp())
	}
	return dir.Kubeconfig(), nil
}

func needRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("a cluster with nodes needs root, for namespaces, mounts and cgroups: run this command with sudo")
	}
	return nil
}

// up is one cluster in the making.
type up struct {
	Options
	dir         Directory
	say         *progress.Printer
	binary      kubebinary.Binary
	tools       hosttool.Tools
	hierarchies []cgroup.Hierarchy
	state       *state.State
	waiting     []*member.Waiting // as state.Members
	keys        *pki.ControlPlane
	api         *apiclient.Client
}

func (u *up) run(ctx context.Context) error {
	var err error
	if u.tools, err = hosttool.Ensure(ctx, u.say); err != nil {
		return err
	}
	if u.binary, err = u.Binary(ctx, u.say); err != nil {
		return err
	}
	if u.hierarchies, err = cgroup.Hierarchies(); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		u.makeWorld, u.startControlPlane, u.startNodes, u.finish,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// makeWorld makes the namespaces and the network between them. Choosing a network and using it is one step, which no other
// cluster's may meet.
func (u *up) makeWorld(ctx context.Context) error {
	unlock, err := u.dir.lockNetworks(ctx, u.say)
	if err != nil {
		return err
	}
	defer unlock()
	if err := u.begin(ctx); err != nil {
		return err
	}
	if err := u.makeNamespaces(); err != nil {
		return err
	}
	return u.joinNetwork(ctx)
}

// begin chooses a network and notes everything that is going to be on the machine.
func (u *up) begin(ctx context.Context) error {
	if err := os.RemoveAll(u.dir.Logs()); err != nil {
		return fmt.Errorf("removing old logs: %w", err)
	}
	if err := u.dir.make(u.dir.path, u.dir.volumes()); err != nil {
		return err
	}
	plan, err := u.choosePlan(ctx)
	if err != nil {
		return err
	}
	version, err := u.binary.Version()
	if err != nil {
		return err
	}
	low, err := u.lowSysctls()
	if err != nil {
		return err
	}
	u.state = &state.State{
		Name: u.Name, Phase: state.Starting, Version: version, Plan: plan, Nodes: u.Nodes,
		HostLink: fmt.Sprintf("wpk%d", plan.Network.Addr().As4()[1]),
		Cgroup:   "/workpulling/" + u.Name,
		Sysctls:  low,
	}
	if err := u.state.Save(u.dir.path); err != nil {
		return err
	}
	u.say.Printf("cluster %q: Kubernetes %s, network %s, %d node(s), logs in %s", u.Name, version, plan.Network, u.Nodes, u.dir.Logs())
	return sysctls{"/proc/sys"}.raise(low)
}

// lowSysctls gives the settings to raise with their values before any cluster raised them: what another cluster raised already
// is noted by every later one, so that the last to go can put it back.
func (u *up) lowSysctls() (map[string]int, error) {
	low, err := sysctls{"/proc/sys"}.tooLow()
	if err != nil {
		return nil, err
	}
	siblings, err := u.dir.siblings()
	if err != nil {
		return nil, err
	}
	for _, s := range siblings {
		maps.Copy(low, s.Sysctls)
	}
	return low, nil
}

func (u *up) choosePlan(ctx context.Context) (address.Plan, error) {
	used, err := network.Routes(ctx)
	if err != nil {
		return address.Plan{}, err
	}
	candidates := address.Candidates()
	if u.Network.IsValid() {
		candidates = []netip.Prefix{u.Network}
	}
	return address.Pick(candidates, used)
}

// names of the members, the control plane first.
func (u *up) names() []string {
	names := []string{controlPlane}
	for i := range u.Nodes {
		names = append(names, nodeName(i+1))
	}
	return names
}

const controlPlane = "control-plane"

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// makeNamespaces starts the members, each in cgroups of its own, and notes them. They wait for their configuration, and end
// by themselves if we die before they are noted.
func (u *up) makeNamespaces() error {
	for _, name := range u.names() {
		if err := u.dir.make(u.dir.MemberLogs(name)); err != nil {
			return err
		}
		log, err := os.Create(filepath.Join(u.dir.MemberLogs(name), "member.log"))
		if err != nil {
			return fmt.Errorf("opening a log: %w", err)
		}
		w, err := member.Start(log)
		log.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		u.waiting = append(u.waiting, w)
		process, err := state.Identify(w.PID)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		u.state.Members = append(u.state.Members, state.Member{Name: name, Process: process})
		if err := u.state.Save(u.dir.path); err != nil {
			return err
		}
		system := u.cgroup(name) + "/system"
		if err := cgroup.Create(u.hierarchies, system); err != nil {
			return err
		}
		if err := cgroup.Enter(u.hierarchies, system, w.PID); err != nil {
			return err
		}
	}
	return nil
}

func (u *up) cgroup(member string) string { return u.state.Cgroup + "/" + member }

func (u *up) joinNetwork(ctx context.Context) error {
	t := network.Topology{
		Plan: u.state.Plan, HostLink: u.state.HostLink, ControlPlane: network.Namespace{PID: u.waiting[0].PID},
	}
	for _, w := range u.waiting[1:] {
		t.Nodes = append(t.Nodes, network.Namespace{PID: w.PID})
	}
	return t.Join(ctx)
}

// configure completes what all members have in common, and sets the member to work.
func (u *up) configure(i int, c member.Config) error {
	c.Hostname = u.state.Members[i].Name
	c.LogDir = u.dir.MemberLogs(c.Hostname)
	c.Orders = u.dir.orders(c.Hostname)
	c.Keep = []string{u.dir.path, filepath.Dir(u.binary.Kube())}
	c.Binds = append(c.Binds, member.Bind{From: u.dir.volumes(), To: "/var/lib/volumes"})
	for _, b := range c.Binds {
		if err := u.dir.make(b.From); err != nil {
			return err
		}
	}
	return u.waiting[i].Configure(c)
}

// giveUp takes away what a failed attempt made.
func (u *up) giveUp() error {
	for _, w := range u.waiting {
		w.Abandon()
	}
	if u.state == nil {
		return nil
	}
	// The context may have ended; the clean-up has its own time.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	u.say.Printf("giving up: taking away what was made; the logs stay in %s", u.dir.Logs())
	return takeDown(ctx, u.dir, u.state, u.say)
}
