//go:build integration

package storm

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/pool"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/sidecar/producer"
	"github.com/workpulling/workpulling/sidecar/worker"
	"github.com/workpulling/workpulling/test/builders"
	"github.com/workpulling/workpulling/test/integration/environment"
)

const flow = "orders"

// site is a namespace with a pool, the rights of an installation, a producer, and what every worker of the pool mounts.
type site struct {
	t         *testing.T
	env       *environment.Environment
	namespace string
	pool      *v1alpha1.WorkerPool
	authority *transporttest.Authority
	producer  *producer.Sidecar
	document  string // file of the workers' configuration
	apiCA     []byte
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newSite(t *testing.T, options environment.Options) *site {
	t.Helper()
	env, err := environment.Start(t.Context(), options)
	must(t, err)
	t.Cleanup(func() { must(t, env.Stop()) })
	namespace, err := env.Namespace(t.Context(), "storm")
	must(t, err)
	s := &site{t: t, env: env, namespace: namespace, authority: transporttest.NewAuthority(t)}
	t.Cleanup(func() { must(t, env.DeleteNamespace(context.Background(), namespace)) })
	s.apiCA = env.Config.CAData
	if len(s.apiCA) == 0 {
		s.apiCA, err = os.ReadFile(env.Config.CAFile)
		must(t, err)
	}
	api, err := url.Parse(env.Config.Host)
	must(t, err)
	t.Setenv("KUBERNETES_SERVICE_HOST", api.Hostname())
	t.Setenv("KUBERNETES_SERVICE_PORT", api.Port())
	s.rights()
	s.pool = builders.MakePool("packers", namespace, flow).Obj()
	s.pool.UID, s.pool.Generation = "", 0
	s.create(s.pool)
	s.create(pool.Rights(s.pool, "worker")...)
	return s
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

// rights are the accounts, the policy about Leases, and the Role of a producer.
func (s *site) rights() {
	s.t.Helper()
	policy, err := environment.WorkerLeasePolicy(s.namespace + ".worker-leases")
	must(s.t, err)
	for _, o := range policy {
		s.create(o)
		s.t.Cleanup(func() { must(s.t, client.IgnoreNotFound(s.env.Client.Delete(context.Background(), o))) })
	}
	read := []string{"get", "list", "watch"}
	s.create(
		&corev1.ServiceAccount{ObjectMeta: s.meta("worker")}, &corev1.ServiceAccount{ObjectMeta: s.meta("producer")},
		&rbacv1.Role{ObjectMeta: s.meta("producer"), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: read},
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"workerpools"}, Verbs: read},
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: read},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: s.meta("producer"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "producer"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: "producer"}},
		},
	)
}

// user is how the API server calls an account.
func (s *site) user(account string) string {
	return "system:serviceaccount:" + s.namespace + ":" + account
}

// pod makes one that nothing runs.
func (s *site) pod(name, account string) *corev1.Pod {
	s.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: s.meta(name),
		Spec:       corev1.PodSpec{ServiceAccountName: account, Containers: []corev1.Container{{Name: "app", Image: "none"}}},
	}
	if account == "worker" {
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s.pool, v1alpha1.GroupVersion.WithKind(v1alpha1.KindWorkerPool))}
		pod.Annotations = map[string]string{v1alpha1.AnnotationLease: v1alpha1.LeaseRequired}
	}
	s.create(pod)
	return pod
}

// mount writes what kubelet gives the sidecar of a pod to reach the API server and the producer with. The CA of each is told apart by a
// comment: client-go would have all clients of one process share a connection.
func (s *site) mount(pod *corev1.Pod) (apiDir, tokenFile string) {
	s.t.Helper()
	dir := filepath.Join(s.t.TempDir(), pod.Name)
	must(s.t, os.Mkdir(dir, 0o700))
	token := func(audiences ...string) []byte {
		text, err := environment.RequestToken(s.t.Context(), s.env.Client, s.namespace, pod.Spec.ServiceAccountName, authenticationv1.TokenRequestSpec{
			Audiences: audiences, ExpirationSeconds: ptr.To[int64](3600),
			BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
		})
		must(s.t, err)
		return []byte(text)
	}
	for name, content := range map[string][]byte{
		"token": token(), "ca.crt": bytes.Join([][]byte{[]byte("# " + pod.Name), s.apiCA}, []byte("\n")), "ours": token(runtimeconfig.TokenAudience),
	} {
		must(s.t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	return dir, filepath.Join(dir, "ours")
}

// write leaves a configuration document behind.
func write[T runtimeconfig.Producer | runtimeconfig.Worker](t *testing.T, document T) string {
	t.Helper()
	text, _, err := runtimeconfig.Marshal(document)
	must(t, err)
	file := filepath.Join(t.TempDir(), "config.json")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// run runs a sidecar until the test ends.
func (s *site) run(what string, sidecar func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := sidecar(ctx); err != nil {
			s.t.Errorf("%s: %v", what, err)
		}
	})
	s.t.Cleanup(func() {
		stop()
		running.Wait()
	})
}

// startProducer runs the sidecar of a producer, and says how workers find it.
func (s *site) startProducer() runtimeconfig.WorkerFlow {
	s.t.Helper()
	apiDir, tokenFile := s.mount(s.pod("orders-producer-0", "producer"))
	host := runtimeconfig.ProducerHost(flow, s.namespace)
	dir := s.t.TempDir()
	certFile, keyFile := s.authority.Issue(s.t, host)
	must(s.t, os.Rename(certFile, filepath.Join(dir, "tls.crt")))
	must(s.t, os.Rename(keyFile, filepath.Join(dir, "tls.key")))
	made, err := producer.New(producer.Options{
		Log: logr.Discard(), Incarnation: protocol.Incarnation{PodUID: "producer", BootNonce: "boot"},
		ConfigFile: write(s.t, runtimeconfig.Producer{
			Namespace: s.namespace, Flow: flow, FlowUID: "flow", QueueType: "Memory", Intake: runtimeconfig.IntakeOpen, BacklogMaxJobs: 1000, BacklogMaxBytes: 1 << 20,
		}),
		CAFile: s.authority.CAFile(), TLSDir: dir, TokenFile: tokenFile, APIDir: apiDir, DataDir: s.t.TempDir(),
		LossFile: filepath.Join(dir, "loss"), HaltFile: filepath.Join(dir, "failure.json"),
		TransportAddress: "127.0.0.1:0", ConfigPoll: time.Minute,
	})
	must(s.t, err)
	s.producer = made
	s.run("the producer", made.Run)
	return runtimeconfig.WorkerFlow{Name: flow, ProducerAddress: made.Address(), ProducerHost: host}
}

// app answers where the app of every worker listens.
func (s *site) app() int32 {
	s.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(s.t, err)
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
	s.run("the app", func(ctx context.Context) error {
		context.AfterFunc(ctx, func() { _ = server.Close() })
		if err := server.Serve(listener); err != http.ErrServerClosed {
			return err
		}
		return nil
	})
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must(s.t, err)
	number, err := strconv.ParseInt(port, 10, 32)
	must(s.t, err)
	return int32(number)
}

// configure writes the configuration of the workers, as the operator does for a pool of this size.
func (s *site) configure(from runtimeconfig.WorkerFlow, workers int) {
	s.t.Helper()
	s.document = write(s.t, runtimeconfig.Worker{
		Namespace: s.namespace, Pool: s.pool.Name, Flows: []runtimeconfig.WorkerFlow{from}, Window: 10, Concurrency: 1,
		ResendIntervalMS: 2000, HandlerPort: s.app(), HandlerPath: "/", HandlerTimeoutSec: 60,
		LeaseRenewSec: int64(runtimeconfig.LeaseInterval(workers) / time.Second),
	})
}

// workers makes the sidecars of so many pods, which begin when they are run.
func (s *site) workers(n int) []*worker.Sidecar {
	s.t.Helper()
	list := make([]*worker.Sidecar, n)
	for i := range list {
		pod := s.pod(fmt.Sprintf("packers-%d", i), "worker")
		apiDir, tokenFile := s.mount(pod)
		made, err := worker.New(worker.Options{
			Log: logr.Discard(), Incarnation: protocol.Incarnation{PodUID: string(pod.UID), BootNonce: "boot"},
			ConfigFile: s.document, CAFile: s.authority.CAFile(), TokenFile: tokenFile, APIDir: apiDir, PodName: pod.Name,
			AppHost: "127.0.0.1", ConfigPoll: time.Minute, StopTimeout: time.Second,
		})
		must(s.t, err)
		list[i] = made
	}
	return list
}

// bound is how many workers the producer has bindings of.
func (s *site) bound() int {
	stats, err := s.producer.Stats(s.t.Context())
	if err != nil {
		return 0
	}
	return len(stats.Bindings)
}
