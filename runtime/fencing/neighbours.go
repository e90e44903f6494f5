package fencing

import (
	"context"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/workpulling/workpulling/runtime/transport"
)

// addressesTrusted is how long addresses count after the API server was last heard: long enough for a restart of it, and a bound on how long
// a producer that is cut off believes in an address that was given to somebody else. A watch that works is heard about once a minute.
const addressesTrusted = 5 * time.Minute

// Admitted is the outcome of Neighbours.Outcomes for callers that were let in. The others are labels of refusals.
const Admitted = "admitted"

// Neighbours knows the pods of a flow's namespace by their addresses, for a flow whose intake trusts its namespace. It watches pods while
// the switch is on and only then: the cache of pods by name, which is always there, holds no addresses.
type Neighbours struct {
	namespace string
	trusted   func() bool
	client    dynamic.Interface
	resource  dynamic.ResourceInterface
	limit     flowcontrol.PassiveRateLimiter
	clock     clock.PassiveClock
	log       logr.Logger

	census atomic.Pointer[census] // nil while the switch is off

	mu       sync.Mutex
	outcomes map[string]uint64
}

func newNeighbours(o Options, client dynamic.Interface) *Neighbours {
	trusted := o.TrustNamespace
	if trusted == nil {
		trusted = func() bool { return false }
	}
	return &Neighbours{
		namespace: o.Namespace, trusted: trusted, client: client, resource: client.Resource(pods).Namespace(o.Namespace),
		clock: o.Clock, log: o.Log,
		limit:    flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(lookRate, lookBurst, o.Clock),
		outcomes: map[string]uint64{},
	}
}

// Trusted says whether the switch is on.
func (n *Neighbours) Trusted() bool { return n.trusted() }

// Outcomes counts the callers without a token by what became of them: Admitted, or the label of a refusal.
func (n *Neighbours) Outcomes() map[string]uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.outcomes)
}

// Admit says as whom a caller without a token from an address submits: as the ServiceAccount of the only live pod of the namespace with that
// address. Where the watch says otherwise the API server is asked once, because a pod may be younger than what the watch has told, and an
// address may have a new owner. Errors are *transport.Refusal.
func (n *Neighbours) Admit(ctx context.Context, address netip.Addr) (transport.Submitter, error) {
	pod, refusal := n.judge(ctx, address)
	if refusal != nil {
		n.count(string(refusal.Label))
		return transport.Submitter{}, refusal
	}
	n.count(Admitted)
	return transport.Submitter{Subject: pod.account, Neighbour: true}, nil
}

func (n *Neighbours) judge(ctx context.Context, address netip.Addr) (*inhabitant, *transport.Refusal) {
	known, refusal := n.known(address)
	if refusal != nil {
		return nil, refusal
	}
	pod, refusal := judgeAddress(address, n.namespace, known)
	if refusal == nil || !mayBePod(plainAddress(address)) {
		return pod, refusal
	}
	if known, refusal = n.look(ctx, address); refusal != nil {
		return nil, refusal
	}
	return judgeAddress(address, n.namespace, known)
}

// known are the pods that the watch says have an address.
func (n *Neighbours) known(address netip.Addr) ([]*inhabitant, *transport.Refusal) {
	c := n.census.Load()
	if c == nil || !c.informer.HasSynced() {
		return nil, unchecked("the pods of the namespace are not known yet")
	}
	if n.clock.Since(*c.heard.Load()) > addressesTrusted {
		return nil, unchecked("nothing was heard of the pods of the namespace for too long: the API server does not answer")
	}
	return c.at(address), nil
}

// look asks the API server for the pods with an address.
func (n *Neighbours) look(ctx context.Context, address netip.Addr) ([]*inhabitant, *transport.Refusal) {
	if !n.limit.TryAccept() {
		return nil, unchecked("too many callers from addresses that are not known")
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	list, err := n.resource.List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("status.podIP", plainAddress(address).String()).String(),
	})
	if err != nil {
		return nil, unchecked("the API server did not answer about the address: " + shortCause(err))
	}
	out := make([]*inhabitant, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, inhabitantOf(&list.Items[i]))
	}
	return out, nil
}

func unchecked(reason string) *transport.Refusal {
	refusal := undecided(reason)
	refusal.Label = transport.LabelAddressUnchecked
	return refusal
}

func (n *Neighbours) count(outcome string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.outcomes[outcome]++
}

// run watches pods while the switch is on, until ctx ends.
func (n *Neighbours) run(ctx context.Context) {
	every(ctx, func() {
		c := n.census.Load()
		switch on := n.trusted(); {
		case on && c == nil:
			n.open(ctx)
		case !on && c != nil:
			n.census.Store(nil)
			c.close()
			n.log.Info("Every caller of the intake needs a token again")
		}
	})
	if c := n.census.Swap(nil); c != nil {
		c.close()
	}
}

func (n *Neighbours) open(ctx context.Context) {
	c, err := newCensus(ctx, n.client, n.namespace, n.clock)
	if err != nil { // impossible for an informer that does not run yet
		n.log.Error(err, "The pods of the namespace cannot be watched: nobody is let in without a token")
		return
	}
	n.census.Store(c)
	n.log.Info("The intake trusts the namespace: its pods submit and look jobs up without a token", "namespace", n.namespace)
}

// byAddress is the index of a census.
const byAddress = "address"

// census is one watch of the pods of a namespace.
type census struct {
	informer cache.SharedIndexInformer
	heard    atomic.Pointer[time.Time] // when the API server last said anything
	clock    clock.PassiveClock
	close    func()
}

func newCensus(ctx context.Context, client dynamic.Interface, namespace string, now clock.PassiveClock) (*census, error) {
	resource := client.Resource(pods).Namespace(namespace)
	c := &census{clock: now}
	c.hear()
	c.informer = cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(unwound(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := resource.List(ctx, o)
			if err == nil {
				c.hear()
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			events, err := resource.Watch(ctx, o)
			if err != nil {
				return nil, err
			}
			return drained{watch.Filter(events, func(event watch.Event) (watch.Event, bool) {
				if event.Type != watch.Error {
					c.hear()
				}
				return event, true
			})}, nil
		},
	}), client), &unstructured.Unstructured{}, 0, cache.Indexers{byAddress: addressesOf})
	if err := c.informer.SetTransform(onlyAddresses); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.informer.RunWithContext(ctx)
	}()
	c.close = func() {
		cancel()
		<-done
	}
	return c, nil
}

// drained is a watch of watch.Filter, which without it waits for ever with an event that nobody takes after the end.
type drained struct{ watch.Interface }

// Stop implements watch.Interface.
func (d drained) Stop() {
	d.Interface.Stop()
	for range d.ResultChan() { // it ends with the watch behind it
	}
}

func (c *census) hear() {
	now := c.clock.Now()
	c.heard.Store(&now)
}

// at are the pods with an address.
func (c *census) at(address netip.Addr) (out []*inhabitant) {
	found, err := c.informer.GetIndexer().ByIndex(byAddress, plainAddress(address).String())
	if err != nil {
		return nil // impossible: the index is there
	}
	for _, object := range found {
		if pod, ok := object.(*inhabitant); ok {
			out = append(out, pod)
		}
	}
	return out
}

// onlyAddresses drops what is not needed to tell whose an address is.
func onlyAddresses(object any) (any, error) {
	if pod, ok := object.(*unstructured.Unstructured); ok {
		return inhabitantOf(pod), nil
	}
	return object, nil
}

func addressesOf(object any) ([]string, error) {
	pod, ok := object.(*inhabitant)
	if !ok {
		return nil, nil
	}
	out := make([]string, 0, len(pod.addresses))
	for _, address := range pod.addresses {
		out = append(out, address.String())
	}
	return out, nil
}
