package pool

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/podbuilder"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// Rights are what the ServiceAccounts of a pool's workers may do: keep a Lease. RBAC cannot say "that of your own pod", so what they may do
// with a Lease is left to an admission policy, which knows the accounts by the verb hold on workerpools/leases: it comes with the very role
// that makes the policy necessary.
func Rights(pool *v1alpha1.WorkerPool, accounts ...string) []client.Object {
	role := &rbacv1.Role{ObjectMeta: rightsMeta(pool), Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "patch"}},
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"workerpools/leases"}, Verbs: []string{"hold"}},
	}}
	binding := &rbacv1.RoleBinding{ObjectMeta: rightsMeta(pool), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}}
	for _, account := range accounts {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: pool.Namespace, Name: account})
	}
	return []client.Object{role, binding}
}

func rightsMeta(pool *v1alpha1.WorkerPool) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: pool.Namespace, Name: runtimeconfig.WorkerName(pool.Name), Labels: podbuilder.WorkerLabels(pool),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pool, v1alpha1.GroupVersion.WithKind(v1alpha1.KindWorkerPool))},
	}
}

// accounts are those of the workers that are there, and of new ones.
func (o *observation) accounts() []string {
	accounts := []string{AccountOf(o.pool)}
	for _, w := range o.snapshot.Workers {
		if w.pod != nil && w.pod.Spec.ServiceAccountName != "" {
			accounts = append(accounts, w.pod.Spec.ServiceAccountName)
		}
	}
	slices.Sort(accounts)
	return slices.Compact(accounts)
}
