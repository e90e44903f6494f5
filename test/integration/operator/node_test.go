//go:build integration

package operator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/podhealth"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// addresses hands out loopback addresses, one for each pod.
var addresses atomic.Uint32

// worker is the sidecar of one pod, as far as the operator can see.
type worker struct {
	protocolv1.UnimplementedWorkerControlServer
	uid    string
	server *grpc.Server

	mu                 sync.Mutex
	running            int32
	cordoned, draining bool
	idle               time.Duration
}

func (w *worker) describe() *protocolv1.WorkerStatus {
	return &protocolv1.WorkerStatus{
		PodUid: w.uid, Registered: true, Running: w.running, Unsettled: w.running, Cordoned: w.cordoned || w.draining, Draining: w.draining,
		Drained: w.draining && w.running == 0, IdleSeconds: int64(w.idle / time.Second), AppReady: true,
	}
}

func (w *worker) GetStatus(context.Context, *protocolv1.GetStatusRequest) (*protocolv1.WorkerStatus, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.describe(), nil
}

func (w *worker) CordonIfIdle(_ context.Context, r *protocolv1.CordonIfIdleRequest) (*protocolv1.CordonIfIdleReply, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.ExpectedPodUid != w.uid {
		return nil, status.Error(codes.FailedPrecondition, "another pod")
	}
	w.cordoned = w.cordoned || w.running == 0
	return &protocolv1.CordonIfIdleReply{Cordoned: w.cordoned, Status: w.describe()}, nil
}

func (w *worker) StartDrain(_ context.Context, r *protocolv1.StartDrainRequest) (*protocolv1.WorkerStatus, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.ExpectedPodUid != w.uid {
		return nil, status.Error(codes.FailedPrecondition, "another pod")
	}
	w.draining = true
	return w.describe(), nil
}

func (w *worker) Uncordon(context.Context, *protocolv1.UncordonRequest) (*protocolv1.WorkerStatus, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cordoned, w.draining = false, false
	return w.describe(), nil
}

func (w *worker) run(jobs int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = jobs
}

// node does for the pods of one namespace what a kubelet would.
type node struct {
	namespace string
	mu        sync.Mutex
	workers   map[types.UID]*worker
	started   map[types.UID]bool
}

// newNode runs a node for a namespace until the spec ends.
func newNode(namespace string) *node {
	n := &node{namespace: namespace, workers: map[types.UID]*worker{}, started: map[types.UID]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			n.sync(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	DeferCleanup(func() {
		cancel()
		<-done
		for _, w := range n.workers {
			w.server.Stop()
		}
	})
	return n
}

func (n *node) sync(ctx context.Context) {
	var pods corev1.PodList
	if err := env.Client.List(ctx, &pods, client.InNamespace(n.namespace)); err != nil {
		return
	}
	present := map[types.UID]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		present[pod.UID] = true
		if n.started[pod.UID] || podhealth.IsTerminal(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		if err := n.start(ctx, pod); err != nil {
			fmt.Fprintf(GinkgoWriter, "starting pod %s: %v\n", pod.Name, err)
			continue
		}
		n.started[pod.UID] = true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for uid, w := range n.workers {
		if !present[uid] {
			w.server.Stop()
			delete(n.workers, uid)
		}
	}
}

// start makes a pod run: its status, and the sidecar of a worker.
func (n *node) start(ctx context.Context, pod *corev1.Pod) error {
	if err := n.refuse(ctx, pod); err != nil {
		return err
	}
	number := addresses.Add(1)
	address := fmt.Sprintf("127.77.%d.%d", number/250, number%250+1)
	if pod.Labels[v1alpha1.LabelRole] == v1alpha1.RoleWorker {
		if err := n.serve(ctx, pod, address); err != nil {
			return err
		}
	}
	before := pod.DeepCopy()
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = nil, nil
	for _, c := range pod.Spec.InitContainers {
		if c.Name == runtimeconfig.ContainerSidecar {
			pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses,
				corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: running, Started: ptr.To(true), Ready: true})
		}
	}
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: running, Started: ptr.To(true), Ready: true})
	}
	return env.Client.Status().Patch(ctx, pod, client.MergeFrom(before))
}

// refuse says of a pod with a variable from a Secret that is not there what a kubelet would, and tries again.
func (n *node) refuse(ctx context.Context, pod *corev1.Pod) error {
	for _, c := range pod.Spec.Containers {
		for _, e := range c.Env {
			if e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil {
				continue
			}
			err := env.Client.Get(ctx, types.NamespacedName{Namespace: n.namespace, Name: e.ValueFrom.SecretKeyRef.Name}, &corev1.Secret{})
			if err == nil {
				continue
			}
			before := pod.DeepCopy()
			waiting := &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: err.Error()}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: c.Name, Image: c.Image, State: corev1.ContainerState{Waiting: waiting}}}
			return errors.Join(err, env.Client.Status().Patch(ctx, pod, client.MergeFrom(before)))
		}
	}
	return nil
}

// serve is the sidecar of a worker: it answers with the certificate that the pod would mount, to the operator alone.
func (n *node) serve(ctx context.Context, pod *corev1.Pod, address string) error {
	var secret corev1.Secret
	if err := env.Client.Get(ctx, types.NamespacedName{Namespace: n.namespace, Name: runtimeconfig.TLSSecretName}, &secret); err != nil {
		return err
	}
	entry := runtimeconfig.WorkerName(pod.Labels[v1alpha1.LabelPool])
	certificate, err := tls.X509KeyPair(secret.Data[entry+runtimeconfig.TLSCertSuffix], secret.Data[entry+runtimeconfig.TLSKeySuffix])
	if err != nil {
		return err
	}
	var bundle corev1.ConfigMap
	if err := env.Client.Get(ctx, types.NamespacedName{Namespace: n.namespace, Name: runtimeconfig.CAConfigMapName}, &bundle); err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(bundle.Data[runtimeconfig.OperatorCAKey]))
	listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", address, runtimeconfig.PortTransport))
	if err != nil {
		return err
	}
	w := &worker{uid: string(pod.UID), server: grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots,
	})))}
	protocolv1.RegisterWorkerControlServer(w.server, w)
	go func() { _ = w.server.Serve(listener) }()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.workers[pod.UID] = w
	return nil
}

// worker returns the sidecar of a pod.
func (n *node) worker(pod corev1.Pod) *worker {
	GinkgoHelper()
	n.mu.Lock()
	defer n.mu.Unlock()
	Expect(n.workers).To(HaveKey(pod.UID), pod.Name)
	return n.workers[pod.UID]
}
