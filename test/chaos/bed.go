package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/runtime/queue/postgres/postgrestest"
	"github.com/workpulling/workpulling/test/harness"
	"github.com/workpulling/workpulling/test/integration/environment"
	"github.com/workpulling/workpulling/test/prober"
)

// Options of a run.
type Options struct {
	// Root is the repository, Dir the run's directory, App the static program of the workers' app (cmd/app).
	Root, Dir, App string
	Seed           uint64
	// Length is how long faults come.
	Length time.Duration
	// Rate is jobs a second at most for each flow, LeastRate what it has to accept on average for the run to prove anything.
	Rate, LeastRate float64
	// Grace is the longest stall that needs no explanation.
	Grace time.Duration
	// Only keeps the faults whose kind contains this text, for work on one of them.
	Only string
	// Claim enters jobs into the books that were never sent. A run with it has to fail.
	Claim bool
	// Progress is for people.
	Progress io.Writer
}

// flow is one flow under load, and its pool, which has the same name.
type flow struct {
	name   string
	shared bool // a PostgreSQL queue
	load   *prober.Load
}

// workers of each pool, and producers of the flow with a shared queue.
const (
	workers   = 3
	producers = 2
)

// Bed is what a run needs.
type Bed struct {
	Options
	kubectl   *harness.Kubectl
	cluster   *harness.Cluster
	client    client.Client
	namespace string
	images    harness.Images
	nodes     []string
	operators int // replicas
	database  *harness.Database
	flows     []*flow
	view      *view
	// submits is the token of the submitters, a string.
	submits atomic.Value
	undo    []func(context.Context) error
}

// Start makes a bed that serves. Whatever happens, Stop it.
func Start(ctx context.Context, options Options) (*Bed, error) {
	b := &Bed{Options: options}
	log.SetLogger(logr.Discard())
	for _, step := range []func(context.Context) error{b.startCluster, b.connect, b.startDatabase, b.objects, b.books, b.serving} {
		if err := step(ctx); err != nil {
			return b, err
		}
	}
	return b, nil
}

// Stop takes away what Start made, the last first.
func (b *Bed) Stop(ctx context.Context) error {
	var errs []error
	for _, undo := range slices.Backward(b.undo) {
		errs = append(errs, undo(ctx))
	}
	b.undo = nil
	return errors.Join(errs...)
}

// startCluster uses the local cluster of $CLUSTER_NAME, or one of its own that ends with the run.
func (b *Bed) startCluster(ctx context.Context) error {
	own := os.Getenv("CLUSTER_NAME") == ""
	if own {
		if err := os.Setenv("CLUSTER_NAME", "workpulling-chaos"); err != nil {
			return err
		}
	}
	b.cluster = harness.LocalCluster(b.Root)
	if own {
		b.undo = append(b.undo, func(ctx context.Context) error { return b.cluster.Run(ctx, "down") })
	}
	var err error
	if b.kubectl, b.images, err = harness.Prepare(ctx, b.Root, b.Progress); err != nil {
		return err
	}
	nodes, err := b.kubectl.Get(ctx, "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}")
	if err != nil {
		return err
	}
	if b.nodes = strings.Fields(nodes); len(b.nodes) < 2 {
		return fmt.Errorf("the cluster has %d node, and one is going to be cut off", len(b.nodes))
	}
	if err := b.kubectl.Install(ctx, b.Root, b.images, "extraArgs[0]=--ca-rotation-pause="+rotationPause); err != nil {
		return err
	}
	replicas, err := b.kubectl.Get(ctx, "-n", harness.SystemNamespace, "get", "deployment/workpulling", "-o", "jsonpath={.spec.replicas}")
	if err != nil {
		return err
	}
	b.operators, err = strconv.Atoi(replicas)
	return err
}

func (b *Bed) connect(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", b.kubectl.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.Timeout, config.QPS, config.Burst = requestLimit, 50, 100
	if b.client, err = client.New(config, client.Options{Scheme: environment.Scheme()}); err != nil {
		return fmt.Errorf("connecting to the API server: %w", err)
	}
	b.namespace = "chaos-" + strconv.FormatInt(time.Now().Unix(), 36)
	b.undo = append(b.undo, func(ctx context.Context) error {
		_, err := b.kubectl.Get(ctx, "delete", "namespace", b.namespace, "--ignore-not-found", "--timeout=3m")
		return err
	})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: b.namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	return b.client.Create(ctx, namespace)
}

// requestLimit is how long a request to the API server may take. It is short, because the server goes silent on purpose.
const requestLimit = 5 * time.Second

// password is that of the database's user.
const password = "chaos"

func (b *Bed) startDatabase(ctx context.Context) error {
	d, settings, err := harness.NewDatabase(ctx, b.kubectl, "jobs", "chaos")
	if err != nil {
		return err
	}
	if d.Server, err = postgrestest.Establish(settings...); err != nil {
		return fmt.Errorf("starting PostgreSQL: %w", err)
	}
	b.database = d
	// Before the namespace goes: the flow settles its last jobs there.
	b.undo = append([]func(context.Context) error{func(context.Context) error { return d.Remove() }}, b.undo...)
	return errors.Join(d.Encrypt(ctx, password), d.Secret(ctx, b.kubectl, b.namespace, secretName, d.DSN(d.Role, password)))
}

// books begins the load's books.
func (b *Bed) books(ctx context.Context) error {
	b.view = newView(b)
	if err := b.view.refresh(ctx); err != nil {
		return err
	}
	if err := b.authenticate(ctx); err != nil {
		return err
	}
	for i, f := range b.flows {
		journal, err := prober.OpenJournal(filepath.Join(b.Dir, booksFile(f.name)))
		if err != nil {
			return err
		}
		f.load = &prober.Load{
			Jobs:   "https://" + b.intakeHost(f) + "/v1/flows/" + f.name + "/jobs",
			Client: b.submitter(f),
			Token:  b.bearer,
			Seed:   2*b.Seed + uint64(i), Rate: b.Rate, Outstanding: 2000, Journal: journal,
		}
		f.load.Begin()
	}
	return nil
}

// startLimit is how long the flows may take until they serve.
const startLimit = 5 * time.Minute

// serving waits until all pods are ready.
func (b *Bed) serving(ctx context.Context) error {
	if !prober.Await(ctx, startLimit, time.Second, func(ctx context.Context) bool {
		return b.view.refresh(ctx) == nil && len(b.notReady()) == 0
	}) {
		return fmt.Errorf("the flows do not serve after %s: %v", startLimit, b.notReady())
	}
	return nil
}

// notReady names what is missing: pods that are not ready, and roles with too few.
func (b *Bed) notReady() (missing []string) {
	for _, f := range b.flows {
		want := 1
		if f.shared {
			want = producers
		}
		for role, n := range map[string]int{v1alpha1.RoleProducer: want, v1alpha1.RoleWorker: workers} {
			ready := 0
			for _, p := range b.view.pods(f.name, role) {
				if p.ready() {
					ready++
				} else {
					missing = append(missing, p.Name)
				}
			}
			if ready != n {
				missing = append(missing, fmt.Sprintf("%d of %d %ss of %s are ready", ready, n, role, f.name))
			}
		}
	}
	return missing
}

func (b *Bed) say(format string, args ...any) { fmt.Fprintf(b.Progress, format+"\n", args...) }
