//go:build integration

package identity

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/fencing"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/test/builders"
	"github.com/workpulling/workpulling/test/integration/environment"
)

const flow = "orders"

// site is a namespace with pools, pods and a running Guard that has a producer's rights.
type site struct {
	t         *testing.T
	env       *environment.Environment
	namespace string
	stateDir  string
	guard     *fencing.Guard
	trusted   atomic.Bool // the switch of the intake
	stop      func()
	gone      chan string
	over      chan string
}

func newSite(t *testing.T) *site {
	t.Helper()
	env, err := environment.Start(t.Context(), environment.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, env.Stop()) })
	namespace, err := env.Namespace(t.Context(), "identity")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, env.DeleteNamespace(context.Background(), namespace)) })
	s := &site{t: t, env: env, namespace: namespace, stateDir: t.TempDir(), gone: make(chan string, 10), over: make(chan string, 10)}
	for _, name := range []string{"producer", "worker", "stranger", "submitter"} {
		s.create(&corev1.ServiceAccount{ObjectMeta: s.meta(name)})
	}
	s.rights()
	s.guard = s.newGuard()
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

func (s *site) create(object client.Object) {
	s.t.Helper()
	must(s.t, s.env.Client.Create(s.t.Context(), object))
}

// rights are those that a flow's producer gets, and the permission of a submitter.
func (s *site) rights() {
	s.t.Helper()
	subject := func(name string) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: s.namespace}}
	}
	bind := func(name string, rules ...rbacv1.PolicyRule) {
		s.create(&rbacv1.Role{ObjectMeta: s.meta(name), Rules: rules})
		s.create(&rbacv1.RoleBinding{ObjectMeta: s.meta(name), Subjects: subject(name), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}})
	}
	bind("producer",
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"workerpools"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"localsubjectaccessreviews"}, Verbs: []string{"create"}},
	)
	s.create(&rbacv1.Role{ObjectMeta: s.meta("reader"), Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"workpullingflows/jobs"}, Verbs: []string{"get"},
	}}})
	s.create(&rbacv1.RoleBinding{
		ObjectMeta: s.meta("reader"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:" + s.namespace}},
	})
	bind("submitter", rbacv1.PolicyRule{
		APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"workpullingflows/jobs"}, ResourceNames: []string{flow}, Verbs: []string{"create"},
	})
	name := s.namespace + "-token-reviewer"
	s.create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
	}})
	s.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subject("producer"),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	})
	s.t.Cleanup(func() {
		ctx := context.Background()
		must(s.t, s.env.Client.Delete(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		must(s.t, s.env.Client.Delete(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	})
}

func (s *site) newGuard() *fencing.Guard {
	s.t.Helper()
	config := rest.AnonymousClientConfig(s.env.Config)
	config.BearerToken = s.token("producer", nil)
	return s.guardOf(config)
}

// guardOf runs a Guard until stop. All of a site have one StateDir.
func (s *site) guardOf(config *rest.Config) *fencing.Guard {
	s.t.Helper()
	clients, err := fencing.NewClients(config, s.namespace)
	must(s.t, err)
	guard := fencing.New(fencing.Options{
		Namespace: s.namespace, Flow: flow, Audience: runtimeconfig.TokenAudience, Log: logr.Discard(), StateDir: s.stateDir,
		TrustNamespace:    s.trusted.Load,
		OnPodGone:         func(uid string) { s.gone <- uid },
		OnIncarnationOver: func(uid, boot, _ string) { s.over <- uid + "/" + boot },
	}, clients)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = guard.Run(ctx)
	}()
	s.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	s.t.Cleanup(s.stop)
	return guard
}

// token asks for a real one; without audiences it is for the API server, without a pod it is bound to nothing.
func (s *site) token(account string, pod *corev1.Pod, audiences ...string) string {
	s.t.Helper()
	spec := authenticationv1.TokenRequestSpec{Audiences: audiences, ExpirationSeconds: ptr.To[int64](3600)}
	if pod != nil {
		spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	token, err := environment.RequestToken(s.t.Context(), s.env.Client, s.namespace, account, spec)
	must(s.t, err)
	return token
}

// pod makes one that a pool controls, or nobody.
func (s *site) pod(name, account string, pool *v1alpha1.WorkerPool) *corev1.Pod {
	s.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: s.meta(name),
		Spec:       corev1.PodSpec{ServiceAccountName: account, Containers: []corev1.Container{{Name: "app", Image: "none"}}},
	}
	if pool != nil {
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pool, v1alpha1.GroupVersion.WithKind(v1alpha1.KindWorkerPool))}
	}
	s.create(pod)
	return pod
}

func (s *site) pool(name, flow string) *v1alpha1.WorkerPool {
	s.t.Helper()
	pool := builders.MakePool(name, s.namespace, flow).Obj()
	pool.UID, pool.Generation = "", 0
	s.create(pool)
	return pool
}

// label authenticates a worker and returns why it was refused, "" if it was not.
func (s *site) label(token string) transport.Label {
	s.t.Helper()
	_, err := s.guard.AuthenticateWorker(s.t.Context(), token)
	if err == nil {
		return ""
	}
	refusal, ok := errors.AsType[*transport.Refusal](err)
	if !ok {
		s.t.Fatalf("%v is no refusal", err)
	}
	return refusal.Label
}

func TestIdentityChecksAgainstARealAPIServer(t *testing.T) {
	s := newSite(t)
	ours, theirs := s.pool("ours", flow), s.pool("theirs", "invoices")
	worker := s.pod("worker", "worker", ours)
	audience := runtimeconfig.TokenAudience

	for name, c := range map[string]struct {
		token string
		want  transport.Label
	}{
		"a worker of this flow":                  {s.token("worker", worker, audience), ""},
		"its token for the API server":           {s.token("worker", worker), transport.LabelTokenDefaultAudience},
		"its token for somebody else":            {s.token("worker", worker, "vault"), transport.LabelTokenAudience},
		"its token for two audiences":            {s.token("worker", worker, "other", audience), ""},
		"a token that is bound to no pod":        {s.token("worker", nil, audience), transport.LabelTokenUnbound},
		"a token with another signature":         {tampered(s.token("worker", worker, audience)), transport.LabelTokenSignature},
		"a worker of another flow":               {s.token("worker", s.pod("foreign", "worker", theirs), audience), transport.LabelPodForeign},
		"a pod that belongs to nobody":           {s.token("stranger", s.pod("nobody", "stranger", nil), audience), transport.LabelPodForeign},
		"no token at all":                        {"nonsense", transport.LabelTokenInvalid},
		"another pod that was made a moment ago": {s.token("worker", s.pod("fresh", "worker", ours), audience), ""},
	} {
		if got := s.label(c.token); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	got, err := s.guard.AuthenticateWorker(t.Context(), s.token("worker", worker, audience))
	if err != nil || got.PodUID != string(worker.UID) || got.PodName != "worker" || got.Pool != "ours" {
		t.Errorf("the worker is %v, %v", got, err)
	}
	s.leases(ours)
	// Nobody was reviewed: all were judged by their signature.
	if v := s.guard.Verification(); v.Way != fencing.Offline || v.Offline == 0 || v.Reviewed > 0 {
		t.Errorf("verified so: %+v", v)
	}
	s.restartInAnOutage(worker)
	s.endOfAPod(ours)
	s.submitters()
	s.withoutKeys()
}

// restartInAnOutage: a producer that starts while the API server does not answer knows its workers, and nobody else.
func (s *site) restartInAnOutage(worker *corev1.Pod) {
	s.t.Helper()
	token, unknown := s.token("worker", worker, runtimeconfig.TokenAudience), s.token("worker", s.pod("later", "worker", nil), runtimeconfig.TokenAudience)
	away := rest.AnonymousClientConfig(s.env.Config)
	away.BearerToken, away.Host = s.token("producer", nil), "https://127.0.0.1:1"
	s.stop()
	s.guard = s.guardOf(away)
	if got := s.label(token); got != "" {
		s.t.Errorf("a worker of before, in an outage: %q", got)
	}
	if got := s.label(unknown); got != transport.LabelUnavailable {
		s.t.Errorf("an unknown pod, in an outage: %q", got)
	}
	if got := s.label(tampered(token)); got != transport.LabelTokenSignature {
		s.t.Errorf("another signature, in an outage: %q", got)
	}
	s.stop()
	s.guard = s.newGuard()
}

// withoutKeys: an administrator has taken the key set from ServiceAccounts, so tokens are reviewed.
func (s *site) withoutKeys() {
	s.t.Helper()
	ctx := s.t.Context()
	binding := &rbacv1.ClusterRoleBinding{}
	must(s.t, s.env.Client.Get(ctx, client.ObjectKey{Name: "system:service-account-issuer-discovery"}, binding))
	for _, subject := range binding.Subjects {
		if subject.Kind != rbacv1.GroupKind || subject.Name != "system:serviceaccounts" {
			s.t.Errorf("the key set is for %s %s", subject.Kind, subject.Name)
		}
	}
	bare := binding.DeepCopy()
	bare.Subjects = nil
	must(s.t, s.env.Client.Patch(ctx, bare, client.MergeFrom(binding)))
	defer func() {
		whole := bare.DeepCopy()
		whole.Subjects = binding.Subjects
		must(s.t, s.env.Client.Patch(context.Background(), whole, client.MergeFrom(bare)))
	}()
	s.stop()
	s.stateDir = s.t.TempDir()
	s.guard = s.newGuard()
	token := s.token("submitter", nil, runtimeconfig.TokenAudience)
	transporttest.Eventually(s.t, "tokens are reviewed", func() bool {
		_, err := s.guard.AuthenticateSubmitter(ctx, token, "create")
		return err == nil && s.guard.Verification().Way == fencing.Reviewed
	})
}

// endOfAPod: a terminating pod may not bind anew, a deleted one is refused and reported, and its successor of the same name is another.
func (s *site) endOfAPod(pool *v1alpha1.WorkerPool) {
	s.t.Helper()
	ctx := s.t.Context()
	pod := s.pod("leaving", "worker", pool)
	reviewed, fresh := s.token("worker", pod, runtimeconfig.TokenAudience), s.token("worker", pod, runtimeconfig.TokenAudience)
	held := pod.DeepCopy()
	held.Finalizers = []string{"workpulling.dev/test"}
	must(s.t, s.env.Client.Patch(ctx, held, client.MergeFrom(pod)))
	if got := s.label(reviewed); got != "" {
		s.t.Errorf("before the deletion: %q", got)
	}
	must(s.t, s.env.Client.Delete(ctx, held, client.GracePeriodSeconds(0)))
	transporttest.Eventually(s.t, "the terminating pod is refused", func() bool { return s.label(reviewed) == transport.LabelPodTerminating })
	if len(s.gone) != 0 {
		s.t.Error("a terminating pod was reported gone")
	}
	must(s.t, s.env.Client.Get(ctx, client.ObjectKeyFromObject(held), held))
	free := held.DeepCopy()
	free.Finalizers = nil
	must(s.t, s.env.Client.Patch(ctx, free, client.MergeFrom(held)))
	select {
	case uid := <-s.gone:
		if uid != string(pod.UID) {
			s.t.Errorf("%s reported gone, want %s", uid, pod.UID)
		}
	case <-time.After(transporttest.Patience):
		s.t.Fatal("the deletion was not reported")
	}
	if got := s.label(reviewed); got != transport.LabelPodUnknown {
		s.t.Errorf("a token that was reviewed before the end: %q", got)
	}
	transporttest.Eventually(s.t, "the API server itself refuses the token", func() bool {
		return s.label(fresh) == transport.LabelPodDeleted || s.label(fresh) == transport.LabelPodUnknown
	})
	successor := s.pod("leaving", "worker", pool)
	if got := s.label(s.token("worker", successor, runtimeconfig.TokenAudience)); got != "" {
		s.t.Errorf("the successor: %q", got)
	}
	if got := s.label(reviewed); got != transport.LabelPodUnknown {
		s.t.Errorf("the old token after the successor came: %q", got)
	}
}

// submitters need our audience and the permission for this very flow and verb.
func (s *site) submitters() {
	s.t.Helper()
	for name, c := range map[string]struct {
		token, verb string
		want        transport.Label
	}{
		"allowed":                 {s.token("submitter", nil, runtimeconfig.TokenAudience), "create", ""},
		"for the API server":      {s.token("submitter", nil), "create", transport.LabelTokenDefaultAudience},
		"as one of the namespace": {s.token("submitter", nil, runtimeconfig.TokenAudience), "get", ""},
		"another verb":            {s.token("submitter", nil, runtimeconfig.TokenAudience), "delete", transport.LabelForbidden},
		"without a permission":    {s.token("stranger", nil, runtimeconfig.TokenAudience), "create", transport.LabelForbidden},
	} {
		submitter, err := s.guard.AuthenticateSubmitter(s.t.Context(), c.token, c.verb)
		if c.want == "" {
			if err != nil || submitter.Subject != "system:serviceaccount:"+s.namespace+":submitter" {
				s.t.Errorf("%s: %v, %v", name, submitter, err)
			}
			continue
		}
		if refusal, ok := errors.AsType[*transport.Refusal](err); !ok || refusal.Label != c.want {
			s.t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// tampered changes the signature of a token.
func tampered(token string) string {
	at := strings.LastIndexByte(token, '.') + 1
	first := byte('A')
	if token[at] == first {
		first = 'B'
	}
	return token[:at] + string(first) + token[at+1:]
}
