//go:build integration

package leases

import (
	"context"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/test/integration/environment"
)

// site is a namespace with two workers, ServiceAccounts of other applications, and the policy of an installation.
type site struct {
	t         *testing.T
	env       *environment.Environment
	namespace string
	one, two  *corev1.Pod
}

func newSite(t *testing.T) *site {
	t.Helper()
	env, err := environment.Start(t.Context(), environment.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, env.Stop()) })
	namespace, err := env.Namespace(t.Context(), "leases")
	must(t, err)
	s := &site{t: t, env: env, namespace: namespace}
	t.Cleanup(func() { must(t, env.DeleteNamespace(context.Background(), namespace)) })
	for _, name := range []string{"worker", "operator", "admin"} {
		s.create(&corev1.ServiceAccount{ObjectMeta: s.meta(name)})
	}
	s.install()
	s.one, s.two = s.pod("one", "worker"), s.pod("two", "worker")
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *site) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: s.namespace}
}

func (s *site) create(objects ...client.Object) {
	s.t.Helper()
	for _, o := range objects {
		must(s.t, s.env.Client.Create(s.t.Context(), o))
	}
}

func (s *site) policy() string { return s.namespace + ".worker-leases" }

// install makes the policy of an installation.
func (s *site) install() {
	s.t.Helper()
	objects, err := environment.WorkerLeasePolicy(s.policy())
	must(s.t, err)
	for _, o := range objects {
		s.create(o)
		s.t.Cleanup(func() { must(s.t, client.IgnoreNotFound(s.env.Client.Delete(context.Background(), o))) })
	}
}

// pod is one that nothing runs.
func (s *site) pod(name, account string) *corev1.Pod {
	s.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: s.meta(name),
		Spec:       corev1.PodSpec{ServiceAccountName: account, Containers: []corev1.Container{{Name: "app", Image: "none"}}},
	}
	s.create(pod)
	return pod
}

// bind gives an account rights in a namespace.
func (s *site) bind(namespace, name, account string, rules ...rbacv1.PolicyRule) {
	s.t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: s.namespace + "-" + name}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: rules}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.namespace, Name: account}},
	}
	s.create(role, binding)
	s.t.Cleanup(func() {
		must(s.t, client.IgnoreNotFound(s.env.Client.Delete(context.Background(), role)))
		must(s.t, client.IgnoreNotFound(s.env.Client.Delete(context.Background(), binding)))
	})
}

var everyLease = rbacv1.PolicyRule{
	APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
	Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"},
}

// as is how an account reaches the API server, with a token that is bound to a pod, or to none.
func (s *site) as(account string, pod *corev1.Pod) *rest.Config {
	s.t.Helper()
	spec := authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}
	if pod != nil {
		spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	token, err := environment.RequestToken(s.t.Context(), s.env.Client, s.namespace, account, spec)
	must(s.t, err)
	config := rest.AnonymousClientConfig(s.env.Config)
	config.BearerToken, config.QPS = token, -1
	return config
}

func (s *site) client(account string, pod *corev1.Pod) client.Client {
	s.t.Helper()
	c, err := client.New(s.as(account, pod), client.Options{Scheme: environment.Scheme()})
	must(s.t, err)
	return c
}

// leaseOf is the Lease of a pod as its worker makes it.
func (s *site) leaseOf(pod *corev1.Pod) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, Name: runtimeconfig.WorkerLeaseName(string(pod.UID)),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(string(pod.UID) + "/boot")},
	}
}

// election is the Lease by which another application elects.
func election(namespace, name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("somebody")},
	}
}
