//go:build integration

package operator

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/children"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/test/builders"
	"github.com/workpulling/workpulling/test/integration/environment"
)

// refusals are the requests for which a right was missing.
type refusals struct {
	mu   sync.Mutex
	seen []string
}

func (r *refusals) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil && (response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusUnauthorized) {
			r.mu.Lock()
			r.seen = append(r.seen, request.Method+" "+request.URL.Path)
			r.mu.Unlock()
		}
		return response, err
	})
}

func (r *refusals) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

// asConfined returns a configuration of an account with the Role of config/namespaced/rights in one watched namespace, with those that
// config/namespaced has for the operator in its own, and with no other right. It presents a token, as in a pod: its issuer is the one that tokens of producers must have.
func asConfined(ctx SpecContext, own, watched string) *rest.Config {
	GinkgoHelper()
	root, err := environment.RepositoryRoot()
	Expect(err).NotTo(HaveOccurred())
	const account = "workpulling-operator"
	Expect(env.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: named(own, account)})).To(Succeed())
	for file, namespace := range map[string]string{
		filepath.Join("rbac", "namespaced_role.yaml"): own, filepath.Join("namespaced", "authority.yaml"): own,
		filepath.Join("namespaced", "rights", "role.yaml"): watched,
	} {
		role, err := environment.ReadManifest(filepath.Join(root, "config", file))
		Expect(err).NotTo(HaveOccurred())
		role[0].SetNamespace(namespace)
		Expect(env.Client.Create(ctx, role[0])).To(Succeed())
		Expect(env.Client.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: named(namespace, role[0].GetName()),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role[0].GetName()},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: own, Name: account}},
		})).To(Succeed())
	}
	token, err := environment.RequestToken(ctx, env.Client, own, account, authv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)})
	Expect(err).NotTo(HaveOccurred())
	config := rest.AnonymousClientConfig(env.Config)
	config.BearerToken = token
	return config
}

var _ = Describe("An operator without rights on the whole cluster", Serial, func() {
	It("does its work in the namespaces that it watches, and asks for nothing that it may not", func(ctx SpecContext) {
		own, watched, other := newNamespace(ctx), newNamespace(ctx), newNamespace(ctx)
		refused := &refusals{}
		config := asConfined(ctx, own, watched)
		config.Wrap(refused.wrap)
		options := operatorOptions()
		options.Namespace, options.Confined, options.WatchNamespaces, options.LeaderElection = own, true, []string{watched, "gone"}, true
		replaceOperatorBy(config, options)

		unwatched := builders.MakeFlow(flowName, other).Memory().Obj()
		Expect(env.Client.Create(ctx, unwatched)).To(Succeed())
		newNode(watched)
		Expect(env.Client.Create(ctx, builders.MakeFlow(flowName, watched).Memory().Obj())).To(Succeed())
		onVolume := builders.MakeFlow("kept", watched).DeletionPolicy(v1alpha1.DeletionDiscard).Obj()
		Expect(env.Client.Create(ctx, onVolume)).To(Succeed())
		pool := builders.MakePool(poolName, watched, flowName).Replicas(2).Obj()
		Expect(env.Client.Create(ctx, pool)).To(Succeed())

		By("leaving a namespace out that is not there, and having reports accepted, by the keys of the cluster")
		p := newProducer(ctx, watched, flowName)
		Eventually(flowCondition(ctx, watched, flowName, v1alpha1.ConditionReady)).Should(Equal("True/Serving"))
		p.set(func(s *protocolv1.FlowStats) { s.BacklogJobs = 7 })
		Eventually(func() *int64 { return getFlow(ctx, watched, flowName).Status.Backlog }).Should(HaveValue(Equal(int64(7))))
		Eventually(poolCondition(ctx, watched, poolName, v1alpha1.ConditionReady)).Should(Equal("True/WorkersReady"))

		By("binding no ClusterRole, and leaving other namespaces alone")
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: named("", "workpulling:"+watched+":"+flowName)}
		Expect(exists(ctx, binding)()).To(BeFalse())
		left := getFlow(ctx, other, flowName)
		Expect(left.Finalizers).To(BeEmpty())
		Expect(left.Status.Conditions).To(BeEmpty())

		By("letting flows and pools go")
		p.set(func(s *protocolv1.FlowStats) { s.BacklogJobs = 0 })
		Expect(env.Client.Delete(ctx, pool)).To(Succeed())
		Eventually(exists(ctx, pool)).Should(BeFalse())
		for _, name := range []string{flowName, onVolume.Name} {
			Expect(env.Client.Delete(ctx, getFlow(ctx, watched, name))).To(Succeed())
			Eventually(func() *v1alpha1.WorkPullingFlow { return getFlowOrNil(ctx, watched, name) }).Should(BeNil())
		}
		Expect(slices.DeleteFunc(refused.all(), func(request string) bool { return strings.Contains(request, "/namespaces/gone/") })).To(BeEmpty())
	})

	It("learns that a namespace is being deleted without looking at it", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		Expect(children.Terminating(ctx, env.Client, namespace)).To(BeFalse())
		held := &corev1.ConfigMap{ObjectMeta: named(namespace, "held")}
		held.Finalizers = []string{"workpulling.dev/test"}
		Expect(env.Client.Create(ctx, held)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			before := held.DeepCopy()
			held.Finalizers = nil
			Expect(client.IgnoreNotFound(env.Client.Patch(ctx, held, client.MergeFrom(before)))).To(Succeed())
		})
		Expect(env.DeleteNamespace(ctx, namespace)).To(Succeed())
		Eventually(func() (bool, error) { return children.Terminating(ctx, env.Client, namespace) }).Should(BeTrue())
	})
})
