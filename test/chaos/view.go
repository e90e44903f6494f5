package chaos

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/test/harness"
	"github.com/workpulling/workpulling/test/prober"
)

// view is what the API server said last. While it is away, that is what submitters and faults go by.
type view struct {
	bed *Bed

	mu    sync.Mutex
	all   []pod
	roots *x509.CertPool
	// shunned are addresses that nobody could be reached at, until when.
	shunned map[netip.Addr]time.Time
}

// pod is a pod as it was seen last.
type pod struct{ corev1.Pod }

func (p pod) ready() bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func (p pod) uid() string { return string(p.UID) }

// containers is the UID once for each container of the pod.
func (p pod) containers() []string {
	return slices.Repeat([]string{p.uid()}, len(p.Spec.InitContainers)+len(p.Spec.Containers))
}

func newView(b *Bed) *view { return &view{bed: b, shunned: map[netip.Addr]time.Time{}} }

// refresh asks the API server.
func (v *view) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	var pods corev1.PodList
	if err := v.bed.client.List(ctx, &pods, client.InNamespace(v.bed.namespace)); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	roots := x509.NewCertPool()
	var bundle corev1.ConfigMap
	err := v.bed.client.Get(ctx, client.ObjectKey{Namespace: v.bed.namespace, Name: runtimeconfig.CAConfigMapName}, &bundle)
	if err == nil && !roots.AppendCertsFromPEM([]byte(bundle.Data["ca.crt"])) {
		err = errors.New("there is no CA to trust")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all = nil
	for _, p := range pods.Items {
		v.all = append(v.all, pod{p})
	}
	slices.SortFunc(v.all, func(a, b pod) int { return strings.Compare(a.Name, b.Name) })
	if err == nil {
		v.roots = roots
	}
	return client.IgnoreNotFound(err)
}

// follow refreshes until ctx ends.
func (v *view) follow(ctx context.Context) {
	for ctx.Err() == nil {
		_ = v.refresh(ctx) // the API server may be away
		prober.Pause(ctx, time.Second)
	}
}

// pods are those of a role of a flow that have not ended, by name.
func (v *view) pods(flow, role string) (out []pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	label := v1alpha1.LabelFlow
	if role == v1alpha1.RoleWorker {
		label = v1alpha1.LabelPool
	}
	for _, p := range v.all {
		ended := p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
		if p.Labels[label] == flow && p.Labels[v1alpha1.LabelRole] == role && !ended {
			out = append(out, p)
		}
	}
	return out
}

// on are the pods of both flows on a node, by role.
func (v *view) on(node, role string, flows []*flow) (out []pod) {
	for _, f := range flows {
		for _, p := range v.pods(f.name, role) {
			if p.Spec.NodeName == node {
				out = append(out, p)
			}
		}
	}
	return out
}

// shunFor is how long an address is left alone at which nobody answers.
const shunFor = 3 * time.Second

// intake picks one of the producers of a flow, as a Service would.
func (v *view) intake(flow string) (netip.Addr, error) {
	var good, all []netip.Addr
	for _, p := range v.pods(flow, v1alpha1.RoleProducer) {
		address, err := netip.ParseAddr(p.Status.PodIP)
		if err != nil {
			continue // it has none yet
		}
		all = append(all, address)
		v.mu.Lock()
		if time.Now().After(v.shunned[address]) {
			good = append(good, address)
		}
		v.mu.Unlock()
	}
	if len(good) == 0 {
		good = all
	}
	if len(good) == 0 {
		return netip.Addr{}, errors.New("no producer of " + flow + " has an address")
	}
	return good[rand.IntN(len(good))], nil
}

// dial reaches a producer of a flow, by the names that the operator gave to it and the authority that it published.
func (v *view) dial(ctx context.Context, f *flow) (net.Conn, error) {
	address, err := v.intake(f.name)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: 2 * time.Second}
	plain, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(address, runtimeconfig.PortIntake).String())
	if err != nil {
		v.mu.Lock()
		v.shunned[address] = time.Now().Add(shunFor)
		v.mu.Unlock()
		return nil, err
	}
	v.mu.Lock()
	roots := v.roots
	v.mu.Unlock()
	secure := tls.Client(plain, &tls.Config{RootCAs: roots, ServerName: v.bed.intakeHost(f), MinVersion: tls.VersionTLS13})
	handshake, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := secure.HandshakeContext(handshake); err != nil {
		return nil, errors.Join(err, plain.Close())
	}
	return secure, nil
}

func (b *Bed) intakeHost(f *flow) string {
	return runtimeconfig.IntakeName(f.name) + "." + b.namespace + ".svc"
}

// submitter is the client of a load. Connections end now and then, so that jobs come to every producer.
func (b *Bed) submitter(f *flow) *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		MaxIdleConnsPerHost: prober.Connections, IdleConnTimeout: 5 * time.Second,
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return b.view.dial(ctx, f) },
	}}
}

// metric reads a figure of a pod's runtime, the sum over its labels.
func (b *Bed) metric(ctx context.Context, p pod, name string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	url := "http://" + net.JoinHostPort(p.Status.PodIP, strconv.Itoa(runtimeconfig.PortMetrics)) + "/metrics"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	answer, err := metricsClient.Do(request)
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
		return 0, fmt.Errorf("%s has no metric %s", p.Name, name)
	}
	return sum, nil
}

var metricsClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// active is the producer of a flow that says that it has the queue.
func (b *Bed) active(ctx context.Context, f *flow) (pod, bool) {
	for _, p := range b.view.pods(f.name, v1alpha1.RoleProducer) {
		if value, err := b.metric(ctx, p, "workpulling_flow_member_active"); err == nil && value == 1 {
			return p, true
		}
	}
	return pod{}, false
}
