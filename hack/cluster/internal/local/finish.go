package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/workpulling/workpulling/hack/cluster/internal/child"
	"github.com/workpulling/workpulling/hack/cluster/internal/component"
	"github.com/workpulling/workpulling/hack/cluster/internal/image"
	"github.com/workpulling/workpulling/hack/cluster/internal/logtail"
	"github.com/workpulling/workpulling/hack/cluster/internal/member"
	"github.com/workpulling/workpulling/hack/cluster/internal/poll"
	"github.com/workpulling/workpulling/hack/cluster/internal/state"
)

const (
	// stepLimit is generous: a busy machine is slow, not broken.
	stepLimit = 3 * time.Minute
	// maxRestarts tells a component that cannot work from one that was started a little too early.
	maxRestarts = 5
)

// finish waits until everything works and notes that.
func (u *up) finish(ctx context.Context) error {
	if err := u.wait(ctx, "the API server", func(ctx context.Context) error { return u.api.Get(ctx, "/readyz", nil) }); err != nil {
		return err
	}
	u.say.Printf("the API server is ready at https://%s", u.apiAddress())
	if err := u.apply(ctx); err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	for i := range u.Nodes {
		all.Go(func() error { return u.finishNode(ctx, i+1) })
	}
	all.Go(func() error { return u.awaitDNS(ctx) })
	if err := all.Wait(); err != nil {
		return err
	}
	u.state.Phase = state.Running
	if err := u.state.Save(u.dir.path); err != nil {
		return err
	}
	u.say.Printf("cluster %q is up", u.Name)
	return nil
}

// apply makes the objects that a usable cluster has.
func (u *up) apply(ctx context.Context) error {
	text, err := manifests(u.state.Plan)
	if err != nil {
		return fmt.Errorf("rendering the cluster's objects: %w", err)
	}
	return u.wait(ctx, "the cluster's objects", func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, filepath.Join(u.binary.Assets(), "kubectl"), "--kubeconfig="+u.dir.Kubeconfig(),
			"apply", "--server-side", "--force-conflicts", "--field-manager=cluster-up", "-f", "-")
		cmd.Stdin = bytes.NewReader(text)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := child.Run(cmd); err != nil {
			return fmt.Errorf("kubectl apply: %w: %s", err, out.String())
		}
		return nil
	})
}

func (u *up) finishNode(ctx context.Context, i int) error {
	name := nodeName(i)
	pause := image.Program{Ref: component.PauseImage, Executable: u.binary.Pause(), Entrypoint: "/pause"}
	err := u.wait(ctx, "containerd on "+name, func(ctx context.Context) error {
		m, err := u.state.Member(name)
		if err != nil {
			return err
		}
		return importImage(ctx, m, func(w io.Writer) error { return pause.Write(w) })
	})
	if err != nil {
		return err
	}
	err = u.wait(ctx, name+" to be Ready", func(ctx context.Context) error {
		var node struct {
			Status struct {
				Conditions []struct{ Type, Status, Message string }
			}
		}
		if err := u.api.Get(ctx, "/api/v1/nodes/"+name, &node); err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				return nil
			} else if c.Type == "Ready" {
				return errors.New(c.Message)
			}
		}
		return errors.New("it has not reported its condition yet")
	})
	if err == nil {
		u.say.Printf("%s is Ready", name)
	}
	return err
}

// awaitDNS asks for the API server's name at the cluster's DNS Service, from outside, which passes through a node's kube-proxy.
func (u *up) awaitDNS(ctx context.Context) error {
	server := net.JoinHostPort(u.state.Plan.DNSService().String(), "53")
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, network, server)
	}}
	err := u.wait(ctx, "DNS at "+server, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		got, err := resolver.LookupNetIP(ctx, "ip4", "kubernetes.default.svc.cluster.local.")
		if failure := (*net.DNSError)(nil); errors.As(err, &failure) {
			failure.Server = server // not the machine's own, which was not asked
		}
		if err != nil {
			return err
		}
		if want := u.state.Plan.APIService(); !slices.ContainsFunc(got, func(a netip.Addr) bool { return a.Unmap() == want }) {
			return fmt.Errorf("kubernetes.default.svc is at %v, want %s", got, want)
		}
		return nil
	})
	if err == nil {
		u.say.Printf("DNS answers at %s", server)
	}
	return err
}

// wait polls, tells that it waits, and stops early when a component cannot work.
func (u *up) wait(ctx context.Context, what string, condition func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	say := func() string {
		if broken := u.broken(); broken != nil {
			cancel(broken)
		}
		return "waiting for " + what
	}
	err := u.say.While(say, func() error {
		return poll.Until(ctx, stepLimit, what, func(ctx context.Context) error { return condition(ctx) })
	})
	if err == nil {
		return nil
	}
	if broken := u.broken(); broken != nil {
		return broken
	}
	return err
}

// broken describes the first member or component that does not work, with the end of its log.
func (u *up) broken() error {
	for _, m := range u.state.Members {
		logs := u.dir.MemberLogs(m.Name)
		if !m.Process.Alive() {
			return fmt.Errorf("%s ended; the end of its log:\n%s", m.Name, logtail.Of(filepath.Join(logs, "member.log")))
		}
		statuses, err := member.LoadStatuses(logs)
		if err != nil {
			return err
		}
		var names []string
		for name, s := range statuses {
			if s.Restarts >= maxRestarts {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			return fmt.Errorf("%s on %s was started %d times and ended each time (%s); the end of its log:\n%s",
				name, m.Name, statuses[name].Restarts, strings.TrimSpace(statuses[name].LastEnd), logtail.Of(filepath.Join(logs, name+".log")))
		}
	}
	return nil
}
