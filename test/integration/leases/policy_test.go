//go:build integration

package leases

import (
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/controllers/pool"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/test/builders"
)

// attempt is something that is tried with a Lease, and undone if it worked.
type attempt func(ctx context.Context, c client.Client) error

func creates(lease *coordinationv1.Lease) attempt {
	return func(ctx context.Context, c client.Client) error { return c.Create(ctx, lease.DeepCopy()) }
}

func changes(lease *coordinationv1.Lease, change func(*coordinationv1.Lease)) attempt {
	return func(ctx context.Context, c client.Client) error {
		live := &coordinationv1.Lease{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(lease), live); err != nil {
			return err
		}
		before := live.DeepCopy()
		change(live)
		return c.Patch(ctx, live, client.MergeFrom(before))
	}
}

func deletes(lease *coordinationv1.Lease) attempt {
	return func(ctx context.Context, c client.Client) error { return c.Delete(ctx, lease.DeepCopy()) }
}

func holder(text string) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &text }
}

func with(lease *coordinationv1.Lease, change func(*coordinationv1.Lease)) *coordinationv1.Lease {
	change(lease)
	return lease
}

// A worker touches the Lease of its pod and no other, though other roles would let it (B-087, and the rights of a worker).
func TestAWorkerTouchesItsOwnLeaseAlone(t *testing.T) {
	s := newSite(t)
	elsewhere := "kube-system"
	for _, namespace := range []string{s.namespace, elsewhere} {
		for _, account := range []string{"worker", "operator"} {
			s.bind(namespace, account, account, everyLease)
		}
	}
	s.bind(s.namespace, "admin", "admin", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	ours, theirs := election(s.namespace, "election"), election(elsewhere, s.namespace)
	s.create(ours, theirs)
	t.Cleanup(func() { must(t, client.IgnoreNotFound(s.env.Client.Delete(context.Background(), theirs))) })

	worker, unbound := s.client("worker", s.one), s.client("worker", nil)
	elected := changes(ours, func(l *coordinationv1.Lease) {
		l.Spec.LeaseTransitions = ptr.To(ptr.Deref(l.Spec.LeaseTransitions, 0) + 1)
	})
	if err := elected(t.Context(), worker); err != nil {
		t.Fatalf("an account that no pool uses yet is hindered: %v", err)
	}
	p := builders.MakePool("packers", s.namespace, "orders").Obj()
	p.UID, p.Generation = "", 0
	s.create(p)
	s.create(pool.Rights(p, "worker")...)
	transporttest.Eventually(t, "the policy is in force", func() bool {
		if apierrors.IsForbidden(elected(t.Context(), worker)) {
			return true
		}
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // not a storm of writes
		return false
	})

	s.create(s.leaseOf(s.two))
	all := &client.DeleteAllOfOptions{ListOptions: client.ListOptions{Namespace: s.namespace}}
	type row struct {
		name    string
		who     client.Client
		what    attempt
		allowed bool
	}
	for _, r := range []row{
		{"a Lease of its own without an owner", worker, creates(with(s.leaseOf(s.one), func(l *coordinationv1.Lease) { l.OwnerReferences = nil })), false},
		{"a Lease of its own with its neighbour as the owner", worker,
			creates(with(s.leaseOf(s.one), func(l *coordinationv1.Lease) { l.OwnerReferences = s.leaseOf(s.two).OwnerReferences })), false},
		{"a Lease of its own with a second owner", worker, creates(with(s.leaseOf(s.one), func(l *coordinationv1.Lease) {
			l.OwnerReferences = append(l.OwnerReferences, s.leaseOf(s.two).OwnerReferences...)
		})), false},
		{"a Lease of its own with a finalizer", worker,
			creates(with(s.leaseOf(s.one), func(l *coordinationv1.Lease) { l.Finalizers = []string{"workpulling.dev/x"} })), false},
		{"a Lease of its own for its neighbour", worker, creates(with(s.leaseOf(s.one), holder(string(s.two.UID)+"/boot"))), false},
		{"a Lease of its own without a holder", worker, creates(with(s.leaseOf(s.one), func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil })), false},
		{"its own Lease in another namespace", worker, creates(with(s.leaseOf(s.one), func(l *coordinationv1.Lease) { l.Namespace = elsewhere })), false},
		{"its own Lease, with a token that is bound to no pod", unbound, creates(s.leaseOf(s.one)), false},
		{"its own Lease", worker, creates(s.leaseOf(s.one)), true},
		{"the next incarnation", worker, changes(s.leaseOf(s.one), holder(string(s.one.UID)+"/next")), true},
		{"its own Lease, for its neighbour", worker, changes(s.leaseOf(s.one), holder(string(s.two.UID)+"/boot")), false},
		{"its own Lease, for nobody", worker, changes(s.leaseOf(s.one), holder("")), false},
		{"its own Lease, without an owner", worker, changes(s.leaseOf(s.one), func(l *coordinationv1.Lease) { l.OwnerReferences = nil }), false},
		{"its neighbour's Lease", worker, changes(s.leaseOf(s.two), holder(string(s.two.UID)+"/x")), false},
		{"its neighbour's Lease, for itself", worker, changes(s.leaseOf(s.two), holder(string(s.one.UID)+"/x")), false},
		{"the deletion of its neighbour's Lease", worker, deletes(s.leaseOf(s.two)), false},
		{"an election", worker, elected, false},
		{"a new election", worker, creates(election(s.namespace, "another")), false},
		{"the deletion of an election", worker, deletes(ours), false},
		{"the deletion of all Leases", worker, func(ctx context.Context, c client.Client) error {
			return c.DeleteAllOf(ctx, &coordinationv1.Lease{}, all)
		}, false},
		{"an election of the cluster", worker, changes(theirs, holder("me")), false},
		{"the deletion of an election of the cluster", worker, deletes(theirs), false},
		{"an election, with a token that is bound to no pod", unbound, elected, false},
		{"another application's election", s.client("operator", nil), elected, true},
		{"another application's election, in a pod", s.client("operator", s.pod("operator", "operator")), elected, true},
		{"another application's election of the cluster", s.client("operator", nil), changes(theirs, holder("operator")), true},
		{"the administrator of the namespace", s.client("admin", nil), elected, true},
		{"the administrator of the cluster", s.env.Client, changes(s.leaseOf(s.two), holder("me")), true},
		{"the deletion of its own Lease", worker, deletes(s.leaseOf(s.one)), true},
	} {
		t.Run(r.name, func(t *testing.T) {
			err := r.what(t.Context(), r.who)
			switch {
			case r.allowed && err != nil:
				t.Errorf("refused: %v", err)
			case !r.allowed && !apierrors.IsForbidden(err):
				t.Errorf("allowed (%v)", err)
			case !r.allowed && !strings.Contains(err.Error(), s.policy()):
				t.Errorf("refused by something else: %v", err)
			}
		})
	}
	s.collected()
}

// collected: the garbage collector is not hindered.
func (s *site) collected() {
	s.t.Helper()
	if !s.env.HasControllers {
		return
	}
	lease := s.leaseOf(s.one)
	must(s.t, s.client("worker", s.one).Create(s.t.Context(), lease))
	must(s.t, s.env.Client.Delete(s.t.Context(), s.one, client.GracePeriodSeconds(0)))
	transporttest.Eventually(s.t, "the Lease goes with its pod", func() bool {
		return apierrors.IsNotFound(s.env.Client.Get(s.t.Context(), client.ObjectKeyFromObject(lease), lease))
	})
}
