package crash

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/test/builders"
	"github.com/workpulling/workpulling/test/harness"
	"github.com/workpulling/workpulling/test/integration/environment"
	"github.com/workpulling/workpulling/test/prober"
)

// Names of the bed's objects.
const (
	flowName  = "crash"
	poolName  = "crash"
	submitter = "submitter"
	// operatorHost is the name of the operator's Service.
	operatorHost = "operator.test"
)

// metricLimit is how long a sidecar may take to tell its figures; one that is paused takes for ever.
const metricLimit = 2 * time.Second

// Options of a bed.
type Options struct {
	// Dir holds programs, volumes, ledgers and logs. Short, for the sockets in it.
	Dir string
	// App is the program that runs as the workers' app.
	App     string
	Seed    uint64
	Workers int
	// API says under which address the programs, unlike the bed itself, find the API server of an address; nil for the same.
	API func(address string) string
	// Flow changes the flow before it is made.
	Flow func(*v1alpha1.WorkPullingFlow)
	// Objects are made before the flow, in its namespace.
	Objects []client.Object
}

// Bed is a flow and a pool with everything around them.
type Bed struct {
	Options
	Node *Node
	// Spared is the UID of a worker's pod that nothing happens to.
	Spared    string
	env       *environment.Environment
	namespace string
	address   string // of the API server, for programs
	operator  *container
	producers int
	leader    atomic.Pointer[pod] // as follow saw it last
	roots     *x509.CertPool
	token     string
	stopOnce  func() error
}

// Start makes a bed that serves. Whatever happens, Stop it.
func Start(ctx context.Context, options Options) (*Bed, error) {
	b := &Bed{Options: options}
	b.stopOnce = sync.OnceValue(b.stop)
	if err := os.Unsetenv("KUBECONFIG"); err != nil { // the pods of a cluster of someone's would run there
		return b, err
	}
	log.SetLogger(logr.Discard()) // the operator, which would say something, is a process of its own
	var err error
	if b.env, err = environment.Start(ctx, environment.Options{}); err != nil {
		return b, err
	}
	if !b.env.HasControllers {
		return b, errors.New("a controller manager is needed: unset KUBEBUILDER_ASSETS")
	}
	for _, step := range []func(context.Context) error{b.build, b.rights, b.startNode, b.startOperator, b.objects, b.serving} {
		if err := step(ctx); err != nil {
			return b, err
		}
	}
	return b, nil
}

// Stop ends everything. A second call returns what the first did.
func (b *Bed) Stop() error { return b.stopOnce() }

func (b *Bed) stop() error {
	var errs []error
	if b.Node != nil {
		errs = append(errs, b.Node.close())
	}
	if b.operator != nil {
		errs = append(errs, b.operator.stop())
	}
	if b.env != nil {
		errs = append(errs, b.env.Stop())
	}
	return errors.Join(errs...)
}

func (b *Bed) program(name string) string { return filepath.Join(b.Dir, "bin", name) }

// build builds the real programs.
func (b *Bed) build(ctx context.Context) error {
	root, err := environment.RepositoryRoot()
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(b.Dir, "bin")+"/", "./cmd/sidecar", "./cmd/operator")
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the programs: %w\n%s", err, output)
	}
	return nil
}

// rights are what an installation brings along, and a submitter's permission.
func (b *Bed) rights(ctx context.Context) error {
	root, err := environment.RepositoryRoot()
	if err != nil {
		return err
	}
	roles, err := environment.ReadManifest(filepath.Join(root, "config", "rbac", "token_reviewer_role.yaml"))
	if err != nil {
		return err
	}
	if b.namespace, err = b.env.Namespace(ctx, "crash"); err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Namespace: b.namespace, Name: submitter}
	return errors.Join(
		b.env.Client.Create(ctx, roles[0]),
		b.env.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}),
		b.env.Client.Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"workpullingflows/jobs"}, Verbs: []string{"create", "get", "list"},
		}}}),
		b.env.Client.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: submitter},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: b.namespace, Name: submitter}},
		}),
	)
}

func (b *Bed) startNode(context.Context) error {
	api, err := url.Parse(b.env.Config.Host)
	if err != nil {
		return fmt.Errorf("reading the address of the API server: %w", err)
	}
	b.address = api.Host
	if b.API != nil {
		b.address = b.API(api.Host)
	}
	host, port, err := net.SplitHostPort(b.address)
	if err != nil {
		return fmt.Errorf("reading the address of the API server: %w", err)
	}
	b.Node = &Node{
		client: b.env.Client, namespace: b.namespace, apiHost: host, apiPort: port,
		sidecar: b.program("sidecar"), app: b.App, seed: b.Seed, net: byte(100 + os.Getpid()%100),
		dir: filepath.Join(b.Dir, "p"), ledgers: b.Ledgers(), logs: filepath.Join(b.Dir, "logs"),
	}
	return b.Node.run()
}

// Ledgers is the directory of the workers' ledgers.
func (b *Bed) Ledgers() string { return filepath.Join(b.Dir, "ledgers") }

// startOperator runs the operator as a process that can be killed like the others.
func (b *Bed) startOperator(context.Context) error {
	port, err := transporttest.FindPort()
	if err != nil {
		return err
	}
	kubeconfig, err := b.kubeconfig()
	if err != nil {
		return err
	}
	reports := fmt.Sprintf("127.0.0.1:%d", port)
	b.operator = runContainer("operator", command{
		program: b.program("operator"),
		args: []string{
			"--kubeconfig=" + kubeconfig, "--namespace=" + b.namespace, "--runtime-image=workpulling/runtime:crash",
			fmt.Sprintf("--operator-address=%s:%d", operatorHost, port), "--reports-bind-address=" + reports, "--metrics-bind-address=0",
			"--health-probe-bind-address=0", "--leader-elect=false",
		},
		env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.Dir},
		log: filepath.Join(b.Dir, "logs", "operator.log"),
	}, b.Node.unasked)
	return nil
}

// kubeconfig writes that of the environment with the address for programs.
func (b *Bed) kubeconfig() (string, error) {
	text, err := os.ReadFile(b.env.Kubeconfig)
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	api, err := url.Parse(b.env.Config.Host)
	if err != nil {
		return "", fmt.Errorf("reading the address of the API server: %w", err)
	}
	path := filepath.Join(b.Dir, "kubeconfig")
	if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte(api.Host), []byte(b.address)), 0o600); err != nil {
		return "", fmt.Errorf("writing the operator's kubeconfig: %w", err)
	}
	return path, nil
}

// objects makes the flow and its pool.
func (b *Bed) objects(ctx context.Context) error {
	flow := builders.MakeFlow(flowName, b.namespace).Backoff(50, 1000).MaxAttempts(8).Liveness(1, 5).Obj()
	flow.Spec.DeduplicationWindowSeconds = int32(prober.DeduplicationWindow / time.Second)
	if b.Flow != nil {
		b.Flow(flow)
	}
	b.producers = int(flow.Spec.Producer.Replicas)
	pool := builders.MakePool(poolName, b.namespace, flowName).Replicas(int32(b.Workers)).Concurrency(8).
		Handler(prober.AppPort, "/jobs", int32(prober.HandlerTimeout/time.Second)).Obj()
	for _, object := range b.Options.Objects {
		object.SetNamespace(b.namespace)
		if err := b.env.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("making %T %s: %w", object, object.GetName(), err)
		}
	}
	return errors.Join(b.env.Client.Create(ctx, flow), b.env.Client.Create(ctx, pool))
}

// serving waits until all producers and workers are ready.
func (b *Bed) serving(ctx context.Context) error {
	for !b.allReady() {
		if ctx.Err() != nil {
			b.Node.mu.Lock()
			waiting := b.Node.waiting
			b.Node.mu.Unlock()
			return fmt.Errorf("the flow does not serve: %w; the last pod: %w", ctx.Err(), waiting)
		}
		prober.Pause(ctx, 50*time.Millisecond)
	}
	b.Spared = b.Node.podsOf(v1alpha1.RoleWorker)[0].uid()
	return b.credentials(ctx)
}

func (b *Bed) allReady() bool {
	return len(b.ready(v1alpha1.RoleProducer)) == b.producers && len(b.ready(v1alpha1.RoleWorker)) == b.Workers
}

// ready are the pods of a role that are ready.
func (b *Bed) ready(role string) []*pod {
	return slices.DeleteFunc(b.Node.podsOf(role), func(p *pod) bool { return !p.isReady() })
}

// credentials are what a submitter needs.
func (b *Bed) credentials(ctx context.Context) (err error) {
	from, err := readObjects(ctx, b.env.Client, b.namespace)
	if err != nil {
		return err
	}
	b.roots = x509.NewCertPool()
	if !b.roots.AppendCertsFromPEM([]byte(from.configMaps[runtimeconfig.CAConfigMapName]["ca.crt"])) {
		return errors.New("there is no CA to trust")
	}
	b.token, err = environment.RequestToken(ctx, b.env.Client, b.namespace, submitter, authenticationv1.TokenRequestSpec{
		Audiences: []string{runtimeconfig.TokenAudience}, ExpirationSeconds: ptr.To[int64](24 * 3600),
	})
	return err
}

// Load is a load on the flow, through its intake Service.
func (b *Bed) Load(rate float64) *prober.Load {
	host := runtimeconfig.IntakeName(flowName) + "." + b.namespace + ".svc"
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: b.roots, MinVersion: tls.VersionTLS13},
		MaxIdleConnsPerHost: prober.Connections,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			address, err := b.intake(host)
			if err != nil {
				return nil, err
			}
			return (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, network, address)
		},
	}
	load := &prober.Load{
		Jobs:   "https://" + host + "/v1/flows/" + flowName + "/jobs",
		Client: &http.Client{Transport: transport, Timeout: 10 * time.Second},
		Token:  func() string { return b.token },
		Seed:   b.Seed, Rate: rate, Outstanding: 2000, StandsBy: b.standsBy,
	}
	load.Begin()
	return load
}

// intake picks one of the pods behind the intake Service.
func (b *Bed) intake(host string) (string, error) {
	addresses := b.Node.lookup(host)
	if len(addresses) == 0 {
		return "", errors.New("no pod is ready behind " + host)
	}
	at := addresses[int(time.Now().UnixNano()/1000)%len(addresses)]
	return netip.AddrPortFrom(at, runtimeconfig.PortIntake).String(), nil
}

// metric reads one figure of a pod's sidecar, the sum over its labels.
func (b *Bed) metric(p *pod, name string) (float64, error) {
	client := http.Client{Timeout: metricLimit, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + p.port(runtimeconfig.PortMetrics) + "/metrics")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	metrics, err := harness.ReadMetrics(answer.Body)
	if err != nil {
		return 0, err
	}
	sum, found := metrics.Sum(name)
	if !found {
		return 0, fmt.Errorf("%s has no metric %s", p.name(), name)
	}
	return sum, nil
}

// DataDir is the volume of the first producer's Local queue.
func (b *Bed) DataDir() string {
	return filepath.Join(b.Node.dir, "claims", runtimeconfig.VolumeData+"-"+runtimeconfig.ProducerName(flowName)+"-0")
}

// FlowUID is the flow's.
func (b *Bed) FlowUID(ctx context.Context) (string, error) {
	flow := &v1alpha1.WorkPullingFlow{}
	err := b.env.Client.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: flowName}, flow)
	return string(flow.UID), err
}
