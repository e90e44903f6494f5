package local

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/workpulling/workpulling/hack/cluster/internal/member"
	"github.com/workpulling/workpulling/hack/cluster/internal/poll"
	"github.com/workpulling/workpulling/hack/cluster/internal/progress"
)

const apiServer = "kube-apiserver"

// Stop kills components of a member, as a power cut would, keeps them from being started again, and waits until they have ended.
func (c *Cluster) Stop(ctx context.Context, say *progress.Printer, memberName string, components ...string) error {
	return c.order(ctx, say, memberName, components, func(stopped []string) []string {
		return slices.Compact(slices.Sorted(slices.Values(append(stopped, components...))))
	})
}

// Start undoes Stop, waits until the components run, and for an API server until it is ready.
func (c *Cluster) Start(ctx context.Context, say *progress.Printer, memberName string, components ...string) error {
	return c.order(ctx, say, memberName, components, func(stopped []string) []string {
		return slices.DeleteFunc(stopped, func(name string) bool { return slices.Contains(components, name) })
	})
}

// order changes the list of what is stopped, and waits until each of the components is as the list has it.
func (c *Cluster) order(ctx context.Context, say *progress.Printer, memberName string, components []string, change func([]string) []string) error {
	if err := needRoot(); err != nil {
		return err
	}
	unlock, err := c.Dir.lock(ctx, say)
	if err != nil {
		return err
	}
	defer unlock()
	return c.give(ctx, memberName, components, change)
}

// give is order for who holds the lock of the cluster.
func (c *Cluster) give(ctx context.Context, memberName string, components []string, change func([]string) []string) error {
	m, err := c.State.Member(memberName)
	if err != nil {
		return err
	}
	statuses, err := member.LoadStatuses(c.Dir.MemberLogs(memberName))
	if err != nil {
		return err
	}
	for _, name := range components {
		if _, known := statuses[name]; !known {
			return fmt.Errorf("%s has no component %q; it has %v", memberName, name, slices.Sorted(maps.Keys(statuses)))
		}
	}
	orders, err := member.LoadOrders(c.Dir.orders(memberName))
	if err != nil {
		return err
	}
	if !m.Process.Alive() {
		return fmt.Errorf("%s has died", memberName)
	}
	orders.Stopped = change(orders.Stopped)
	if err := orders.Give(c.Dir.orders(memberName), m.Process.PID); err != nil {
		return err
	}
	for _, name := range components {
		stopped := slices.Contains(orders.Stopped, name)
		if err := poll.Until(ctx, stepLimit, name, func(ctx context.Context) error { return c.obeyed(ctx, memberName, name, stopped) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) obeyed(ctx context.Context, memberName, component string, stopped bool) error {
	statuses, err := member.LoadStatuses(c.Dir.MemberLogs(memberName))
	if err != nil {
		return err
	}
	switch status := statuses[component]; {
	case status.Stopped != stopped:
		return errors.New("the member has not read its orders yet")
	case stopped && status.PID != 0:
		return errors.New("it still runs")
	case !stopped && status.PID == 0:
		return fmt.Errorf("it does not run: %s", status.LastEnd)
	case !stopped && component == apiServer:
		return c.ready(ctx)
	}
	return nil
}

// ready asks the API server without credentials, for what is no secret, and so need not know who answers.
func (c *Cluster) ready(ctx context.Context) error {
	client := &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://%s:%d/readyz", c.State.Plan.ControlPlane(), apiPort), nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the API server is not ready: %s", response.Status)
	}
	return nil
}
