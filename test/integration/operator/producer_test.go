//go:build integration

package operator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/test/integration/environment"
)

// producer reports for a flow as its sidecar would.
type producer struct {
	namespace, flow string
	// pod is the name of its pod.
	pod   string
	mu    sync.Mutex
	stats *protocolv1.FlowStats
	// forgets says that a new pod holds nothing of what the one before held.
	forgets bool
	// late says that the producer does not take a new configuration; it goes on with config.
	late   bool
	config string
}

// newProducer reports for a flow, over the real way, until the spec ends. It waits until the flow has a ready pod.
func newProducer(ctx SpecContext, namespace, flow string) *producer {
	GinkgoHelper()
	return newMember(ctx, namespace, flow, 0, &protocolv1.FlowStats{QueueAvailable: true, Epoch: 1, QueueFormat: 1})
}

// newMember is one of several producers of a flow; it reports stats at first.
func newMember(ctx SpecContext, namespace, flow string, ordinal int, stats *protocolv1.FlowStats) *producer {
	GinkgoHelper()
	p := &producer{namespace: namespace, flow: flow, pod: fmt.Sprintf("%s-%d", runtimeconfig.ProducerName(flow), ordinal), stats: stats}
	Eventually(func() error {
		var pod corev1.Pod
		if err := env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: p.pod}, &pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("pod %s is %s", pod.Name, pod.Status.Phase)
		}
		return nil
	}).Should(Succeed())
	running, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for running.Err() == nil {
			if err := p.session(running); err != nil && running.Err() == nil {
				fmt.Fprintf(GinkgoWriter, "reporting for %s/%s: %v\n", namespace, flow, err)
			}
			select {
			case <-running.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	DeferCleanup(func() {
		cancel()
		<-done
	})
	return p
}

// set changes what is reported.
func (p *producer) set(change func(*protocolv1.FlowStats)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p.stats)
}

// takes says whether a new configuration is taken.
func (p *producer) takes(edits bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = !edits
}

func (p *producer) session(ctx context.Context) error {
	key := client.ObjectKey{Namespace: p.namespace, Name: p.pod}
	var pod corev1.Pod
	if err := env.Client.Get(ctx, key, &pod); err != nil {
		return err
	}
	p.start(string(pod.UID))
	token, err := podToken(ctx, &pod)
	if err != nil {
		return err
	}
	var bundle corev1.ConfigMap
	if err := env.Client.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: runtimeconfig.CAConfigMapName}, &bundle); err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(bundle.Data[runtimeconfig.OperatorCAKey]))
	conn, err := grpc.NewClient(reports, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: operatorHost})))
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := protocolv1.NewFlowStatsCollectorClient(conn).Report(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token))
	if err != nil {
		return err
	}
	for {
		var current corev1.Pod
		if err := env.Client.Get(ctx, key, &current); err != nil || current.UID != pod.UID {
			return errors.Join(err, fmt.Errorf("pod %s was replaced", pod.UID))
		}
		report, err := p.report(ctx, &pod)
		if err != nil {
			return err
		}
		if err := stream.Send(report); err != nil {
			_, err = stream.Recv()
			return err
		}
		if _, err := stream.Recv(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// start is the start of a pod.
func (p *producer) start(uid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.forgets && p.stats.PodUid != "" && p.stats.PodUid != uid {
		p.stats.BacklogJobs, p.stats.InFlight, p.stats.DeadLetters = 0, 0, 0
	}
	p.stats.PodUid = uid
}

func podToken(ctx context.Context, pod *corev1.Pod) (string, error) {
	return environment.RequestToken(ctx, env.Client, pod.Namespace, pod.Spec.ServiceAccountName, authv1.TokenRequestSpec{
		Audiences: []string{runtimeconfig.TokenAudience}, ExpirationSeconds: ptr.To[int64](600),
		BoundObjectRef: &authv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	})
}

// report is the state that the configuration asks for, with the numbers that the test set.
func (p *producer) report(ctx context.Context, pod *corev1.Pod) (*protocolv1.FlowStats, error) {
	var config corev1.ConfigMap
	if err := env.Client.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: runtimeconfig.ProducerName(p.flow)}, &config); err != nil {
		return nil, err
	}
	flow := getFlowOrNil(ctx, p.namespace, p.flow)
	if flow == nil {
		return nil, fmt.Errorf("flow %s is gone", p.flow)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.late {
		p.config = config.Data["config.json"]
	}
	document, err := decodeProducer(p.config)
	if err != nil {
		return nil, err
	}
	report, _ := proto.Clone(p.stats).(*protocolv1.FlowStats)
	report.Namespace, report.Flow, report.FlowUid, report.PodUid = p.namespace, p.flow, string(flow.UID), string(pod.UID)
	report.ConfigHash = runtimeconfig.Hash([]byte(p.config))
	if report.State == "" {
		report.State = map[runtimeconfig.Intake]string{
			runtimeconfig.IntakeOpen: "Running", runtimeconfig.IntakeDraining: "Draining", runtimeconfig.IntakeSuspended: "Suspended",
		}[document.Intake]
	}
	return report, nil
}
