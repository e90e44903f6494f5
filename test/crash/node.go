package crash

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// syncEvery is how often a node looks at the API server and at its pods.
const syncEvery = 300 * time.Millisecond

// Node does for the pods of one namespace what kubelet, kube-proxy and the cluster's name server would.
type Node struct {
	client           client.Client
	namespace        string
	apiHost, apiPort string
	sidecar, app     string // programs
	seed             uint64
	net              byte // second byte of the addresses
	dir              string
	ledgers, logs    string
	names            *nameServer
	count            int // pods so far
	stop             context.CancelFunc
	over             chan struct{}

	mu       sync.Mutex
	pods     map[types.UID]*pod
	ever     []*pod // also those that are gone
	services []corev1.Service
	deaths   []string // ends that nobody asked for
	waiting  error    // why the last pod could not start yet
}

// run makes the node work until close.
func (n *Node) run() error {
	n.dir, n.pods, n.over = filepath.Clean(n.dir), map[types.UID]*pod{}, make(chan struct{})
	for _, dir := range []string{n.ledgers, n.logs} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("making the directories of the node: %w", err)
		}
	}
	var err error
	if n.names, err = listenNames(n.lookup); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	go func() {
		defer close(n.over)
		ticker := time.NewTicker(syncEvery)
		defer ticker.Stop()
		prober := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		for ctx.Err() == nil {
			if err := n.sync(ctx); err != nil && ctx.Err() == nil {
				n.note(err)
			}
			n.probe(ctx, prober)
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
	}()
	return nil
}

// close ends everything that runs here.
func (n *Node) close() error {
	if n.stop == nil {
		return nil
	}
	n.stop()
	<-n.over
	errs := []error{n.names.close()}
	for _, p := range n.podsOf("") {
		errs = append(errs, p.stop())
	}
	return errors.Join(errs...)
}

func (n *Node) note(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting = err
}

func (n *Node) unasked(name, end string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deaths = append(n.deaths, name+": "+end)
}

// sync starts new pods, ends those that are gone, and brings volumes up to date.
func (n *Node) sync(ctx context.Context) error {
	var list corev1.PodList
	var services corev1.ServiceList
	if err := errors.Join(n.client.List(ctx, &list, client.InNamespace(n.namespace)), n.client.List(ctx, &services, client.InNamespace(n.namespace))); err != nil {
		return err
	}
	from, err := readObjects(ctx, n.client, n.namespace)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.services = services.Items
	n.mu.Unlock()
	errs := []error{n.endGone(list.Items)}
	for i := range list.Items {
		object := &list.Items[i]
		if object.DeletionTimestamp != nil {
			continue
		}
		n.mu.Lock()
		p := n.pods[object.UID]
		n.mu.Unlock()
		if p != nil {
			errs = append(errs, p.volumes.write(ctx, from))
			continue
		}
		errs = append(errs, n.adopt(ctx, object, from))
	}
	return errors.Join(errs...)
}

func (n *Node) adopt(ctx context.Context, object *corev1.Pod, from objects) error {
	p, err := n.startPod(ctx, object.DeepCopy(), from)
	if err != nil {
		return fmt.Errorf("starting pod %s: %w", object.Name, err)
	}
	n.mu.Lock()
	n.pods[object.UID] = p
	n.ever = append(n.ever, p)
	n.mu.Unlock()
	return n.report(ctx, p)
}

func (n *Node) endGone(present []corev1.Pod) error {
	n.mu.Lock()
	var gone []*pod
	for uid, p := range n.pods {
		if !slices.ContainsFunc(present, func(o corev1.Pod) bool { return o.UID == uid && o.DeletionTimestamp == nil }) {
			gone = append(gone, p)
			delete(n.pods, uid)
		}
	}
	n.mu.Unlock()
	var errs []error
	for _, p := range gone {
		errs = append(errs, p.stop())
	}
	return errors.Join(errs...)
}

// probe asks every pod whether it is ready and reports changes.
func (n *Node) probe(ctx context.Context, prober *http.Client) {
	var probes sync.WaitGroup
	for _, p := range n.podsOf("") {
		probes.Go(func() {
			if p.look(prober) {
				if err := n.report(ctx, p); err != nil && ctx.Err() == nil {
					n.note(err)
				}
			}
		})
	}
	probes.Wait()
}

func (n *Node) report(ctx context.Context, p *pod) error {
	object := &corev1.Pod{ObjectMeta: p.object.ObjectMeta}
	before := object.DeepCopy()
	object.Status = p.status()
	if err := n.client.Status().Patch(ctx, object, client.MergeFrom(before)); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reporting pod %s: %w", p.name(), err)
	}
	return nil
}

// podsOf are the pods of a role, or all, by name.
func (n *Node) podsOf(role string) []*pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []*pod
	for _, p := range n.pods {
		if role == "" || p.role() == role {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *pod) int { return strings.Compare(a.name(), b.name()) })
	return out
}

// lookup answers <service>.<namespace>.svc with the pods that the Service selects: the ready ones, or all where it says so.
func (n *Node) lookup(name string) []netip.Addr {
	if name == operatorHost {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	}
	n.mu.Lock()
	services := n.services
	n.mu.Unlock()
	at := slices.IndexFunc(services, func(s corev1.Service) bool { return s.Name+"."+s.Namespace+".svc" == name })
	if at < 0 {
		return nil
	}
	service := services[at]
	found := []netip.Addr{}
	for _, p := range n.podsOf("") {
		if labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(p.object.Labels)) && (service.Spec.PublishNotReadyAddresses || p.isReady()) {
			found = append(found, p.address)
		}
	}
	return found
}

// replace deletes a pod without grace, so that its owner makes another.
func (n *Node) replace(ctx context.Context, p *pod) error {
	object := &corev1.Pod{}
	object.Namespace, object.Name = n.namespace, p.name()
	err := n.client.Delete(ctx, object, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.object.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it went before
	}
	return err
}
