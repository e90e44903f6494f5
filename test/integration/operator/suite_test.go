//go:build integration

package operator

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	operatorpkg "github.com/workpulling/workpulling/internal/operator"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/test/integration/environment"
)

const (
	runtimeImage = "workpulling/runtime:test"
	// operatorHost is the name of the operator's Service, which nothing resolves here.
	operatorHost = "operator.test"
)

var (
	env *environment.Environment
	// home is the namespace of the operator, reports where it listens.
	home    string
	reports string
	// writes counts what the operator writes.
	writes *counter
	// used is what the operator needed its rights for.
	used *ledger
	// operatorConfig has the operator's rights, stopOperator stops the one that runs.
	operatorConfig *rest.Config
	stopOperator   func()
)

func TestOperator(t *testing.T) {
	RegisterFailHandler(Fail)
	// The garbage collector looks for new kinds every 30 s; until it has seen ours it deletes nothing that belongs to them.
	SetDefaultEventuallyTimeout(90 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "Operator")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	env, err = environment.Start(ctx, environment.Options{ControllerManagerArgs: []string{
		"--horizontal-pod-autoscaler-sync-period=1s", "--concurrent-gc-syncs=20",
	}})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return env.Stop() })
	Expect(env.HasControllers).To(BeTrue(), "these tests need a controller manager; unset KUBEBUILDER_ASSETS")
	home, err = env.Namespace(ctx, "operator")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) error { return env.DeleteNamespace(ctx, home) })
	reports = transporttest.FreeAddress(GinkgoTB())
	ctrl.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	writes, used = newCounter(), newLedger()
	operatorConfig = asOperator(ctx)
	stopOperator = startOperator(operatorConfig, operatorOptions())
	DeferCleanup(func() { stopOperator() })
})

func operatorOptions() operatorpkg.Options {
	options := operatorpkg.Defaults()
	options.Namespace, options.RuntimeImage = home, runtimeImage
	_, port, err := net.SplitHostPort(reports)
	Expect(err).NotTo(HaveOccurred())
	options.Address, options.ReportsAddress = net.JoinHostPort(operatorHost, port), reports
	options.MetricsAddress, options.ProbeAddress = "0", "0"
	options.TokenReviewerClusterRole = home + "-token-reviewer"
	options.LeaderElection = false
	options.StatusInterval = time.Second
	return options
}

// startOperator runs an operator and returns what stops it.
func startOperator(config *rest.Config, options operatorpkg.Options) func() {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.Background())
	op, err := operatorpkg.New(ctx, config, options, operatorpkg.Parts{Metrics: prometheus.NewRegistry()}, logger())
	Expect(err).NotTo(HaveOccurred())
	done := make(chan error, 1)
	go func() { done <- op.Run(ctx) }()
	return func() {
		cancel()
		Eventually(done).Should(Receive(BeNil()))
	}
}

func logger() logr.Logger { return zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)) }

// asOperator returns a configuration with the rights of config/rbac and no other, under the policy of config/admission.
func asOperator(ctx context.Context) *rest.Config {
	GinkgoHelper()
	root, err := environment.RepositoryRoot()
	Expect(err).NotTo(HaveOccurred())
	roles, err := environment.ReadManifest(filepath.Join(root, "config", "rbac", "role.yaml"))
	Expect(err).NotTo(HaveOccurred())
	clusterRole := roles[0]
	clusterRole.SetName(home)
	rules, _, err := nestedSlice(clusterRole.Object, "rules")
	Expect(err).NotTo(HaveOccurred())
	for _, rule := range rules {
		rename(rule, "workpulling-token-reviewer", home+"-token-reviewer")
	}
	clusterRole.Object["rules"] = rules
	create(ctx, clusterRole)
	create(ctx, &rbacv1.ClusterRole{ObjectMeta: named("", home+"-token-reviewer"), Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
	}})
	policy, err := environment.WorkerLeasePolicy(home + ".worker-leases")
	Expect(err).NotTo(HaveOccurred())
	for _, object := range policy {
		create(ctx, object)
	}
	own, err := environment.ReadManifest(filepath.Join(root, "config", "rbac", "namespaced_role.yaml"))
	Expect(err).NotTo(HaveOccurred())
	own[0].SetNamespace(home)
	create(ctx, own[0])
	subject := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: home, Name: "workpulling-operator"}}
	create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: named("", home), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: home}, Subjects: subject,
	})
	create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: named(home, "workpulling-operator"),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "workpulling-operator"}, Subjects: subject,
	})
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: fmt.Sprintf("system:serviceaccount:%s:workpulling-operator", home),
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + home, "system:authenticated"},
	}
	config.Wrap(writes.wrap)
	config.Wrap(used.wrap)
	return config
}

// create makes an object of the suite, which goes with it.
func create(ctx context.Context, obj client.Object) {
	GinkgoHelper()
	Expect(env.Client.Create(ctx, obj)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(env.Client.Delete(ctx, obj))).To(Succeed())
	})
}
