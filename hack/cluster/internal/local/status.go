package local

import (
	"context"

	"github.com/workpulling/workpulling/hack/cluster/internal/member"
	"github.com/workpulling/workpulling/hack/cluster/internal/network"
	"github.com/workpulling/workpulling/hack/cluster/internal/state"
)

// Status is what "cluster status" tells.
type Status struct {
	Name       string         `json:"name"`
	Phase      string         `json:"phase"` // Down, Starting, Running, or Broken if a member has died
	Version    string         `json:"version,omitempty"`
	Kubeconfig string         `json:"kubeconfig,omitempty"`
	Network    string         `json:"network,omitempty"`
	Logs       string         `json:"logs,omitempty"`
	Members    []MemberStatus `json:"members,omitempty"`
}

// MemberStatus is that of the control plane or a node.
type MemberStatus struct {
	Name       string          `json:"name"`
	Address    string          `json:"address"`
	PID        int             `json:"pid"`
	Alive      bool            `json:"alive"`
	CutOff     bool            `json:"cutOff,omitempty"` // by "cluster partition"
	Components member.Statuses `json:"components"`
}

// Inspect tells how the named cluster does. One that is not there is no error.
func Inspect(ctx context.Context, name string) (Status, error) {
	dir, err := DirectoryOf(name)
	if err != nil {
		return Status{}, err
	}
	s, err := state.Load(dir.path)
	if err != nil {
		return Status{}, err
	}
	if s == nil {
		return Status{Name: name, Phase: "Down"}, nil
	}
	out := Status{
		Name: name, Phase: string(s.Phase), Version: s.Version, Kubeconfig: dir.Kubeconfig(),
		Network: s.Plan.Network.String(), Logs: dir.Logs(),
	}
	if s.Phase == state.Running && !s.Alive() {
		out.Phase = "Broken"
	}
	for i, m := range s.Members {
		status, err := inspectMember(ctx, dir, s, i, m)
		if err != nil {
			return Status{}, err
		}
		out.Members = append(out.Members, status)
	}
	return out, nil
}

func inspectMember(ctx context.Context, dir Directory, s *state.State, i int, m state.Member) (MemberStatus, error) {
	components, err := member.LoadStatuses(dir.MemberLogs(m.Name))
	if err != nil {
		return MemberStatus{}, err
	}
	out := MemberStatus{Name: m.Name, PID: m.Process.PID, Alive: m.Process.Alive(), Components: components}
	if i == 0 {
		out.Address = s.Plan.ControlPlane().String()
		return out, nil
	}
	out.Address = s.Plan.Node(i).String()
	if controlPlane := s.Members[0].Process; s.Phase == state.Running && controlPlane.Alive() && out.Alive {
		up, err := network.LinkUp(ctx, network.Namespace{PID: controlPlane.PID}, i)
		if err != nil {
			return MemberStatus{}, err
		}
		out.CutOff = !up
	}
	return out, nil
}
