package local

import (
	"context"
	"errors"
	"time"

	"github.com/workpulling/workpulling/hack/cluster/internal/cgroup"
	"github.com/workpulling/workpulling/hack/cluster/internal/network"
	"github.com/workpulling/workpulling/hack/cluster/internal/progress"
	"github.com/workpulling/workpulling/hack/cluster/internal/state"
)

// killLimit is for the kernel to end all processes of a namespace; cgroupLimit to let go of their cgroups.
const (
	killLimit   = 30 * time.Second
	cgroupLimit = 10 * time.Second
)

// Down takes the cluster away, whole or half. One that is not there is no error. Logs stay until the next Up.
func Down(ctx context.Context, name string, say *progress.Printer) error {
	if err := needRoot(); err != nil {
		return err
	}
	dir, err := DirectoryOf(name)
	if err != nil {
		return err
	}
	unlock, err := dir.lock(ctx, say)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := state.Load(dir.path)
	if err != nil {
		return err
	}
	if s == nil {
		say.Printf("cluster %q is not up", name)
		return nil
	}
	if err := takeDown(ctx, dir, s, say); err != nil {
		return err
	}
	say.Printf("cluster %q is down", name)
	return nil
}

// takeDown undoes what the state notes and forgets it. It goes on after a failure, but then keeps the state, so that it can
// be tried again.
func takeDown(ctx context.Context, dir Directory, s *state.State, say *progress.Printer) error {
	var errs []error
	// Nodes first: a node that loses its API server would only fill its log.
	for i := len(s.Members) - 1; i >= 0; i-- {
		errs = append(errs, s.Members[i].Process.Kill(killLimit))
	}
	say.Printf("all processes of cluster %q have ended", s.Name)
	errs = append(errs, network.RemoveHostLink(ctx, s.HostLink))
	hierarchies, err := cgroup.Hierarchies()
	errs = append(errs, err, cgroup.Remove(hierarchies, s.Cgroup, cgroupLimit))
	siblings, err := dir.siblings()
	if errs = append(errs, err); err == nil && len(siblings) == 0 { // the others need the settings as they are
		errs = append(errs, sysctls{"/proc/sys"}.restore(s.Sysctls))
	}
	errs = append(errs, dir.removeData())
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return state.Forget(dir.path)
}
